"""N-gram language models: `unigram`, `good_turing` and `kneser_ney` estimate them, with `counts` and `back_off`.

`model` stores and queries them; `arpa` exchanges files with other toolkits.
"""
