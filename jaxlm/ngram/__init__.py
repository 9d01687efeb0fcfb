"""N-gram language models: Good-Turing and modified Kneser-Ney smoothing, in one table form.

    from jaxlm.ngram import kneser_ney
    model = kneser_ney.train(ids, vocab_size, eos, order=5)
    model.event_log_probs(test_ids)   # nats, one for each word and line end
    model.log_prob(context)           # the whole distribution

`unigram`, `good_turing` and `kneser_ney` estimate; `model` holds, saves and loads; `arpa` exchanges
files with other toolkits; `counts` and `back_off` are what the estimators share.
"""
