"""Models trained by objectives, or with inputs, that their own records leave to an option."""

import dataclasses

from jaxlm.models import lbl, nlbl, nplm
from jaxlm.models.docnade_lm import model as docnade_lm
from jaxlm.models.recurrent import gru, lstm, rnn
from jaxlm.models.word2vec import cbow, skipgram


def record(name, base, **options):
    recipe, config = base.recipes["tuned"]
    return dataclasses.replace(base, name=name, recipes={"tuned": (recipe, {**config, **options})})


LBL = record("lbl-nce", lbl.MODEL, objective="nce", learned_normalizer=True, shared_noise=True)
NLBL = record("nlbl-importance", nlbl.MODEL, objective="importance", shared_noise=True)
NPLM = record("nplm-nce", nplm.MODEL, objective="nce", direct=True, shared_noise=True, noise_power=0.5)
CLASSES = record("lbl-classes", lbl.MODEL, objective="classes", dropout=0.3)
RNN = record("rnn-classes", rnn.MODEL, objective="classes")
GRU = record("gru-importance", gru.MODEL, objective="importance", tied=False)
UNDROPPED = dict.fromkeys(("dropout", "feature_dropout", "recurrent_dropout", "word_dropout"), 0.0)
LSTM = record("lstm-nce", lstm.MODEL, objective="nce", tied=True, learned_normalizer=True, **UNDROPPED)
LBL_TREE = record("lbl-tree", lbl.MODEL, objective="tree")
NPLM_TREE = record("nplm-tree", nplm.MODEL, objective="tree", direct=True)
LSTM_TREE = record("lstm-tree", lstm.MODEL, objective="tree", tied=False, **UNDROPPED)
SKIPGRAM = record("skipgram-tree", skipgram.MODEL, objective="tree")
CBOW = record("cbow-tree", cbow.MODEL, objective="tree")
LBL_TOPICS = record("lbl-topics", lbl.MODEL, num_topics=3, topic_window=5, dropout=0.0)
LBL_TOPICS_NCE = record("lbl-topics-nce", lbl.MODEL, num_topics=3, objective="nce")
GRU_TOPICS = record("gru-topics", gru.MODEL, num_topics=3, num_layers=2, **UNDROPPED)
PLAIN = {"dropout": 0.0, "feature_dropout": 0.0}
DOCNADE_LM = record("docnade-lm-classes", docnade_lm.MODEL, objective="classes", **PLAIN)
DOCNADE_LM_TREE = record("docnade-lm-tree", docnade_lm.MODEL, objective="tree", direct=True, **PLAIN)
DOCNADE_LM_NCE = record("docnade-lm-nce", docnade_lm.MODEL, objective="nce", **PLAIN)
DOCNADE_LM_SOFTMAX = record("docnade-lm-softmax", docnade_lm.MODEL, objective="softmax", **PLAIN)
