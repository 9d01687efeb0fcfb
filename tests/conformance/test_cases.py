"""What the conformance tests take from a model's module is refused, not left out, where they cannot tell what it is."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import cases


class Batch(NamedTuple):
    x: Any


def annotated(params, example: Batch, key, config):
    return params * example.x + config


def of_other_examples(params, example: tuple, config):
    return params


def of_another_name(params, example: Batch, rng, config):
    return params


def unannotated(params, example, config):
    return params


def of_anything(params, example: Any, config):
    return params


def specification_of(monkeypatch, loss):
    """Return the specification of a program whose module has this `loss`, None for none."""
    monkeypatch.setattr(cases, "import_module", lambda name: SimpleNamespace(__name__=name, loss=loss))
    return cases.specification(SimpleNamespace(loss=annotated, config=1), Batch(3))


def test_the_specification_takes_one_example_of_a_batch(monkeypatch):
    assert specification_of(monkeypatch, annotated)(2, Batch(3), None) == 7
    assert specification_of(monkeypatch, of_other_examples) is None
    assert specification_of(monkeypatch, None) is None


@pytest.mark.parametrize("loss", [unannotated, of_anything])
def test_a_specification_without_annotations_fails(monkeypatch, loss):
    with pytest.raises(AssertionError, match=r"annotate `example` of .*loss with its type: Batch"):
        specification_of(monkeypatch, loss)


def test_a_specification_of_other_arguments_fails(monkeypatch):
    with pytest.raises(AssertionError, match="takes rng, config after the example, not key"):
        specification_of(monkeypatch, of_another_name)
