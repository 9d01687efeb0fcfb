"""The store of language models: a model whose training was interrupted is trained to its end when it is next wanted."""

import signal

import numpy as np
import pytest

from benchmarks.language.store import LanguageStore, Spec
from jaxfit import fit
from jaxfit.errors import Interrupted

SPEC = Spec("hlbl", tree=("adaptive", 0.0, 1))


def test_an_interrupted_training_over_a_learned_tree_goes_on(tmp_path, monkeypatch) -> None:
    whole, store = (LanguageStore.open("tiny", None, None, "tuned", tmp_path / name) for name in ("whole", "stopped"))
    store.get(SPEC.bootstrap())
    end_epoch = fit._end_epoch

    def stop_at_once(*arguments):
        signal.raise_signal(signal.SIGINT)
        return end_epoch(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_end_epoch", stop_at_once)
        with pytest.raises(Interrupted):
            store.get(SPEC)
    assert not store.is_there(SPEC)
    assert len((store.directory(SPEC) / "journal.jsonl").read_text().splitlines()) == 1

    found, expected = store.get(SPEC), whole.get(SPEC)
    assert found.info["history"] == expected.info["history"]
    for part in ("valid", "test"):
        np.testing.assert_array_equal(found.predictions(part), expected.predictions(part))
