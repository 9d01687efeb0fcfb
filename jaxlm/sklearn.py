"""Models of documents as a transformer of scikit-learn: from counts of words to vectors of documents.

encoder = DocumentEncoder("docnade", num_features=50, random_state=0)
make_pipeline(CountVectorizer(max_features=2000), encoder, LogisticRegression()).fit(texts, labels)
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from numbers import Integral
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from jaxfit.errors import missing_package, value_errors
from jaxfit.recipe import INT32_MAX
from jaxlm import models
from jaxlm.capabilities import EncodesDocuments
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.documents.reading import split_validation
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.trained_model import Model
from jaxlm.training import train

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, check_non_negative, check_random_state, validate_data
except ImportError:
    raise ImportError(str(missing_package("scikit-learn 1.6", "jaxlm.sklearn", "topics"))) from None


class DocumentEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Train a model of documents on counts of words, and compute its vectors of documents.

    X: counts, array or sparse matrix [documents, N_w]. Values that are not whole are rounded, with a warning. A model
    that is trained by SGD is validated on one document in 20, drawn at random, as by `jaxlm train` without `--valid`.

    Args:
        model: name of a model that encodes documents: docnade, deepdocnade, replicated-softmax, lda, ….
        num_features: size of a document's vector.
        epochs: maximum number of epochs, in place of the recipe's.
        recipe: name of one of the model's recipes, or an instance of their class, as for `jaxlm.training.train`.
        config: overrides of the model's Config.
        structure: options of the model's structure, such as its tree.
        log_counts: whether to replace every count n by log(1 + n), rounded, as Lauly et al. (2017) do.
        random_state: the seed, as for `jaxlm train`, a `RandomState`, or None for a seed drawn at random.

    Attributes:
        model_: the trained `jaxlm.trained_model.Model`, whose words are the columns' numbers.
        config_, params_, structure_, info_: its parts.
        n_features_in_, feature_names_in_: as for every transformer.
    """

    def __init__(
        self,
        model: str = "docnade",
        num_features: int = 50,
        *,
        epochs: int | None = None,
        recipe: Any = "tuned",
        config: Mapping[str, Any] | None = None,
        structure: Any = None,
        log_counts: bool = False,
        random_state: Any = None,
    ):
        self.model = model
        self.num_features = num_features
        self.epochs = epochs
        self.recipe = recipe
        self.config = config
        self.structure = structure
        self.log_counts = log_counts
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> DocumentEncoder:
        """Train the model; y is not used.

        Raises:
            ValueError: negative or infinite counts, fewer than two documents with words, or parameters that the model
                cannot be trained with.
        """
        documents = self._documents(X, reset=True).with_words()
        if len(documents) < 2:
            raise ValueError(f"{len(documents)} documents have words, and a model is trained on two or more")
        seed = self.random_state
        if isinstance(seed, Integral) and seed < 0:
            raise ValueError(f"random_state={seed}: give a whole number of at least 0")
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(INT32_MAX))
        with value_errors(), tempfile.TemporaryDirectory() as folder:
            record = models.get(self.model)
            size = models.require(record, EncodesDocuments, type(self).__name__).size
            self._check_types(record, size)
            recipe, overrides = record.recipe(self.recipe) if isinstance(self.recipe, str) else (self.recipe, {})
            if self.epochs is not None:
                recipe = replace(recipe, epochs=self.epochs)
            config = {**overrides, **(self.config or {}), size: self.num_features}
            corpus = _corpus(documents, validated=isinstance(record.fitting, BySGD))
            trained = train(
                self.model, corpus, folder, recipe=recipe, config=config, structure=self.structure, seed=int(seed)
            ).model
        assert trained is not None
        self.config_, self.structure_, self.info_ = trained.config, trained.structure, trained.info
        self.params_ = jax.device_get(trained.params)
        self._n_features_out = self.num_features
        return self

    def _check_types(self, record: LanguageModel, size: str) -> None:
        """Raise ValueError for parameters of the wrong type.

        Args:
            size: the field of Config that num_features is.
        """
        if not isinstance(self.recipe, str) and not is_dataclass(self.recipe):
            raise ValueError(f"recipe={self.recipe!r}: give the name of one, or an instance of its class")
        if self.config is not None and (not isinstance(self.config, Mapping) or size in self.config):
            raise ValueError(f"config={self.config!r}: give a mapping, without {size}, which num_features is")
        if self.structure is not None and not any(isinstance(self.structure, s.options) for s in record.structures):
            known = " or ".join(f"an instance of {each.options.__qualname__}" for each in record.structures)
            raise ValueError(f"structure={self.structure!r}: give {known or 'none'}")
        if not isinstance(self.num_features, Integral):
            raise ValueError(f"num_features={self.num_features!r}: give a whole number")

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return a vector of each document: float32 [documents, num_features]."""
        check_is_fitted(self)
        return self.model_.features(self._documents(X, reset=False))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean over documents with words of 1/D log p of their D words, nats; y is not used.

        It is minus the logarithm of their perplexity (Lauly et al. 2017, Eq. 30), over one order of the words. If a
        model's probabilities are estimated, so is the score: too high on average for the Replicated Softmax, and too
        low for LDA, so that their scores are not comparable.

        Raises:
            ValueError: no document has words; the model has no probabilities of documents.
        """
        check_is_fitted(self)
        documents = self._documents(X, reset=False).with_words()
        if not len(documents):
            raise ValueError("no document has words")
        with value_errors():
            return float(np.mean(self.model_.document_log_probs(documents) / documents.lengths))

    @property
    def model_(self) -> Model:
        """The trained model, built from its parts, which alone are pickled."""
        check_is_fitted(self, "params_")
        record = models.get(self.info_["model"])
        return Model(record, _columns(self.n_features_in_), self.config_, self.params_, self.info_, self.structure_)

    def _documents(self, X: Any, reset: bool) -> Documents:
        """Check X, and round it to counts.

        Args:
            reset: whether it is the training data.
        """
        least = 2 if reset else 1
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", ensure_min_samples=least, ensure_min_features=least
        )
        check_non_negative(X, type(self).__name__)
        table = csr_array(X, copy=True)
        table.sum_duplicates()
        table = table.tocoo()
        times = np.rint(np.log1p(table.data) if self.log_counts else table.data)
        if np.any(table.data % 1):
            what = "X has values that are not whole, which are rounded: give counts, rather than weights as of TF-IDF"
            warnings.warn(what, stacklevel=3)
        if times.sum(dtype=np.float64) > INT32_MAX:
            raise ValueError(f"X counts more than {INT32_MAX:,} words")
        row, column = table.coords
        kept = times > 0
        counts = counted(row[kept], column[kept], table.shape, times[kept].astype(np.int32))
        return Documents(counts, ((),) * len(counts.indptr[1:]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = []  # vectors are float32 whatever X is
        return tags


def _columns(number: int) -> Vocabulary:
    return Vocabulary(tuple(map(str, range(number))))


def _corpus(documents: Documents, validated: bool) -> DocumentCorpus:
    """Return documents as a data set.

    Args:
        validated: whether some are for validation.
    """
    none = documents.take([])
    training, valid = map(documents.take, split_validation(documents)) if validated else (documents, none)
    words = _columns(documents.counts.shape[1])
    return DocumentCorpus("X", training, valid, none, words, content_sha256(training, valid, words), "X")
