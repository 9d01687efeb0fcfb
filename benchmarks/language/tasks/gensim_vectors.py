"""Word vectors by gensim's word2vec, for comparison with ours: the same words, lines and settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.peers import load
from jaxlm.data.corpus import Corpus

PACKAGE = "gensim"
ALGORITHMS = {"skipgram": 1, "cbow": 0}  # gensim's `sg`, by the name of our model


def write_lines(corpus: Corpus, path: Path) -> int:
    """Write the training text, one line each, its words as their ids; return how many words there are."""
    eos = corpus.vocabulary.eos
    ends = np.flatnonzero(corpus.train == eos)
    with path.open("w", encoding="ascii", newline="\n") as file:
        for line in np.split(corpus.train, ends + 1):
            words = line[line != eos]
            if len(words):
                file.write(" ".join(map(str, words.tolist())) + "\n")
    return int(np.count_nonzero(corpus.train != eos))


def prepare(model: str, path: Path, config: Any, seed: int, workers: int) -> Any:
    """Return gensim's model of a file of `write_lines`, its words counted, nothing trained.

    Args:
        model: ours that it is compared with.
        path: the file.
        config: of our model; all else, such as rates, is gensim's default.
        seed: of its initial vectors; with several workers, training is not reproducible.
        workers: threads.
    """
    word2vec = load("gensim.models.word2vec")
    made = word2vec.Word2Vec(
        vector_size=config.num_features, window=config.window, min_count=1, sg=ALGORITHMS[model], hs=0,
        negative=config.num_noise, sample=config.subsample, seed=seed, workers=workers,
    )  # fmt: skip
    made.build_vocab(corpus_file=str(path))
    return made


def epochs(made: Any, path: Path, number: int, words: int) -> Callable[[], None]:
    """Return a function that trains a model of `prepare` for so many epochs.

    Args:
        words: number of words of the file.
    """

    def train() -> None:
        made.train(corpus_file=str(path), total_examples=made.corpus_count, total_words=words, epochs=number)

    return train


def vectors(made: Any, num_words: int) -> NDArray[np.float32]:
    """Return the vectors of words by id, zeros for those that the text does not have: [N_w, N_f]."""
    table = np.zeros((num_words, made.vector_size), np.float32)
    ids = np.array(made.wv.index_to_key, np.int64)  # of decimal digits
    table[ids] = made.wv.vectors
    return table
