"""What a language model's card says of it (`jaxfit.run_dir.card`)."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jaxfit.run_dir import card
from jaxlm.capabilities import Embeds, EncodesDocuments, PredictsDocuments, PredictsWords
from jaxlm.data.files import EOS
from jaxlm.data.vocabulary import UNK
from jaxlm.trained_model import Model

MEASURES = dict.fromkeys(("perplexity", "document_perplexity", "document perplexity"), "perplexity")


def text(model: Model, info: Mapping[str, Any], place: Path, first: Iterable[str], scores: card.Scores) -> str:
    """Return the card of a model.

    Args:
        model: the model.
        info: what `config.json` holds.
        place: the folder in which the card's commands find the model.
        first: commands that come before those that use it.
        scores: on validation and test texts.
    """
    path, word = shlex.quote(str(place)), shlex.quote(_example(model.vocabulary.words))
    shell, python = [*first, f"jaxlm info {path}"], ["import jaxlm", "", f"model = jaxlm.load({str(place)!r})"]
    words, documents = (model.record.capability(kind) for kind in (PredictsWords, PredictsDocuments))
    if words:
        shell += [f"jaxlm eval {path} --text test.txt", f'jaxlm next {path} "the first words"']
        python += ['model.score("a sentence")  # its log-probability, to base 10']
    if documents:
        shell += [f"jaxlm eval {path} --text test.txt"]
    if model.record.capability(EncodesDocuments):
        shell += [f"jaxlm features {path} test.txt --out vectors.npy"]
    if model.record.capability(Embeds):
        shell += [f"jaxlm neighbours {path} {word}"]
        python += ["model.vectors()  # a row for each of model.vocabulary.words"]
    limits = (
        f"It knows the {len(model.vocabulary):,} words of its vocabulary, which are in `vocabulary.txt`, and no "
        "others, and repeats what its training text says, errors and prejudices included."
    )
    task = "text-generation" if words else "feature-extraction"
    name = info.get("corpus", {}).get("name", "text")
    tags = ("language-model" if model.record.reads == "text" else "topic-model",)
    about = card.About(shell, python, task, tags, MEASURES, name, limits)
    return card.text(model.record, info, model.sizes(), scores, about)


def _example(words: Sequence[str]) -> str:
    """Return the first word of letters, which in a text's vocabulary is the most frequent one, or the first other."""
    others = [word for word in words if word not in (EOS, UNK)] or words
    return next(filter(str.isalpha, others), others[0])


write = partial(card.write_after, text)
