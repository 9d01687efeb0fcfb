"""N-gram language models with Good-Turing and modified Kneser-Ney smoothing.

    from jaxlm.ngram import kneser_ney
    model = kneser_ney.train(ids, vocab_size, eos, order=5)
    model.event_log_probs(test_ids)   # log-probability of each word and line end, in nats
    model.log_prob(context)           # distribution of the next word

`unigram`, `good_turing` and `kneser_ney` estimate models, with the help of `counts` and `back_off`; `model` stores and
queries them; `arpa` exchanges files with other toolkits.
"""
