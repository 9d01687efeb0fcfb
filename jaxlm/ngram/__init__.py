"""N-gram language models: `unigram`, `good_turing` and `kneser_ney` estimate them, with `counts` and `back_off`.

`model` stores and queries them; `arpa` exchanges files with other toolkits. `class_ngram` has n-grams of classes of
words, which `exchange` and `brown` find with the counts of `word_classes`; `cache` adds the words that occurred lately.
"""
