"""Language models, one per file or folder, and their registry.

A model is added by its file and one line of `MODELS`. A model's module is imported when its record is first asked
for, so that n-gram models do without JAX.
"""

from jaxfit.registry import Registry
from jaxlm.capabilities import EncodesDocuments
from jaxlm.contract import LanguageModel

MODELS = {
    "unigram": "jaxlm.ngram.unigram:MODEL",
    "gt": "jaxlm.ngram.good_turing:MODEL",
    "kn": "jaxlm.ngram.kneser_ney:MODEL",
    "class-ngram": "jaxlm.ngram.class_ngram:MODEL",
    "cache": "jaxlm.ngram.cache:MODEL",
    "lbl": "jaxlm.models.lbl:MODEL",
    "hlbl": "jaxlm.models.hlbl.model:MODEL",
    "nplm": "jaxlm.models.nplm:MODEL",
    "nplm-cycling": "jaxlm.models.nplm_cycling:MODEL",
    "nlbl": "jaxlm.models.nlbl:MODEL",
    "docnade-lm": "jaxlm.models.docnade_lm.model:MODEL",
    "rnn": "jaxlm.models.recurrent.rnn:MODEL",
    "lstm": "jaxlm.models.recurrent.lstm:MODEL",
    "gru": "jaxlm.models.recurrent.gru:MODEL",
    "frbm": "jaxlm.models.frbm:MODEL",
    "tfrbm": "jaxlm.models.tfrbm:MODEL",
    "skipgram": "jaxlm.models.word2vec.skipgram:MODEL",
    "cbow": "jaxlm.models.word2vec.cbow:MODEL",
    "vlbl": "jaxlm.models.vector_lbl.vlbl:MODEL",
    "ivlbl": "jaxlm.models.vector_lbl.ivlbl:MODEL",
    "glove": "jaxlm.models.glove:MODEL",
    "docnade": "jaxlm.models.docnade.model:MODEL",
    "deepdocnade": "jaxlm.models.deepdocnade:MODEL",
    "replicated-softmax": "jaxlm.models.replicated_softmax.model:MODEL",
    "lda": "jaxlm.models.lda:MODEL",
}
OF_FILES = {"arpa": "jaxlm.ngram.arpa:MODEL", "word2vec": "jaxlm.word_vectors:MODEL"}  # which other programs wrote
REGISTRY: Registry[LanguageModel] = Registry("language model", MODELS, "rating models are for jaxcf", OF_FILES)
names, get, having, require = REGISTRY.names, REGISTRY.get, REGISTRY.having, REGISTRY.require


def vector_size(name: str) -> str:
    """Return the field of a model's Config that says how large its vectors of documents are."""
    return require(get(name), EncodesDocuments, "a size of document vectors").size
