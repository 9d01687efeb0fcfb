"""Every language model of the registry: its distribution, its folder, what other programs read, its commands."""

import copy
import dataclasses
import json
import pickle

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import jaxlm
from cases import assert_same, every, is_refused, succeeds
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxlm.capabilities import (
    CarriesState,
    Embeds,
    EncodesDocuments,
    FillsGaps,
    HasNGrams,
    HasTopics,
    PredictsDocuments,
    PredictsWords,
)
from jaxlm.contract import BySGD
from jaxlm.trees.paths import Tree

CASES = [case for case in every() if case.package is jaxlm]
PREDICTING, EMBEDDING, OF_DOCUMENTS, COUNTED, BY_SGD = (
    [case for case in CASES if condition(case.record)]
    for condition in (
        lambda record: record.capability(PredictsWords),
        lambda record: record.capability(Embeds),
        lambda record: record.capability(EncodesDocuments),
        lambda record: record.capability(HasNGrams),
        lambda record: isinstance(record.fitting, BySGD),
    )
)
CARRYING = [  # with other objectives, and topics, too
    pytest.param(case, id=str(case), marks=[] if case in CASES else pytest.mark.extended)
    for case in every(objectives=True)
    if case.package is jaxlm and case.record.capability(CarriesState)
]
# command, or form of the file -> what it asks for, any of several
NEEDS = {"eval": (PredictsWords, PredictsDocuments), "score": PredictsWords, "next": PredictsWords,
         "sample": PredictsWords, "features": EncodesDocuments, "topics": HasTopics,
         "complete": (PredictsWords, FillsGaps), "rescore": PredictsWords, "neighbours": Embeds, "analogies": Embeds,
         "similarity": Embeds, "word2vec": Embeds, "word2vec-binary": Embeds,
         "arpa": HasNGrams}  # fmt: skip
FORMS = ("word2vec", "word2vec-binary", "arpa")
FILES = {
    "questions.csv": "id,question,a),b)\n1,he _____ tea,saw,she\n",
    "lists.tsv": "utterance\trank\tacoustic\tlm\tnwords\thypothesis\nu\t1\t-9\t-2\t2\the saw\nu\t2\t-8\t-3\t1\ttea\n",
    "analogies.txt": ": some\nhe saw she tea\n",
    "pairs.csv": "he,she,9\nsaw,tea,7\nhe,tea,1\n",
}


def of(cases):
    return pytest.mark.parametrize("case", cases, ids=str, scope="module")


@of(PREDICTING)
def test_distributions_sum_to_one_and_are_what_texts_are_scored_by(case, place, trained):
    model, eos = case.load(trained(case)), place.corpus.vocabulary.eos
    ids = place.corpus.valid[: 1 + np.flatnonzero(place.corpus.valid == eos)[2]]
    expected, line = [], []
    for word in ids:
        log_p = model.log_prob([model.vocabulary.words[i] for i in line])
        assert log_p.shape == (len(model.vocabulary),)
        assert np.sum(np.exp(log_p.astype(np.float64))) == pytest.approx(1, abs=1e-5)
        expected.append(log_p[word])
        line = [] if word == eos else [*line, word]
    np.testing.assert_allclose(model.event_log_probs(ids, fresh_lines=True), expected, rtol=1e-4, atol=1e-5)
    assert np.std(expected) > 0.1


@of([case for case in PREDICTING if hasattr(case.record.config, "context_size")])
def test_before_a_line_that_begins_afresh_is_a_line_end_and_before_it_no_word(case, place, trained):
    """Of models trained across lines: as after words whose vectors are zeros."""
    model = case.load(trained(case))
    remembers = hasattr(model.config, "group_lines") or getattr(model.config, "num_topics", 0)
    if remembers or case.record.capability(CarriesState) or not model.config.across_lines:
        pytest.skip("it also remembers words before its context, or was trained on such lines")
    embeds = case.record.capability(Embeds)
    R, c, tea = embeds and embeds.vectors(model.params), model.config.context_size, model.vocabulary.ids["tea"]
    if not any(x is R for x in jax.tree.leaves(model.params)):
        pytest.skip("none of its parameters are its vectors of words")
    model = dataclasses.replace(model, params=jax.tree.map(lambda x: x.at[tea].set(0) if x is R else x, model.params))
    expected = model.log_prob([*["tea"] * (c - 1), "<eos>"])
    np.testing.assert_allclose(model.log_prob([]), expected, rtol=1e-4, atol=1e-5)
    assert np.any(np.abs(model.log_prob(["<eos>"] * c) - expected) > 1e-4)


@of([case for case in PREDICTING if hasattr(case.record.config, "across_lines")])
@pytest.mark.parametrize("across_lines", [True, False])
def test_distributions_after_several_lines_are_what_texts_are_scored_by(case, across_lines, place, trained):
    model, ids = case.load(trained(case)), place.corpus.valid[:50]
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, across_lines=across_lines))
    c = getattr(model.config, "context_size", 0)  # before the text, contexts differ
    words = [model.vocabulary.words[i] for i in ids]
    expected = [model.log_prob(words[:i])[ids[i]] for i in range(c, len(ids))]
    np.testing.assert_allclose(model.event_log_probs(ids)[c:], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CARRYING)
def test_a_state_carried_from_word_to_word_predicts_as_the_whole_history_does(case, place, tmp_path):
    """A random text with line ends; a state that has been advanced can be advanced again."""
    trained, words = case.train(place, tmp_path / "model").model, place.corpus.vocabulary
    ids = np.random.default_rng(0).integers(0, len(words), 24).astype(np.int32)
    ids[[9, 10, 17]] = words.eos
    of_events, carries = {}, case.record.capability(CarriesState)
    for across_lines in (True, False):
        model = dataclasses.replace(trained, config=dataclasses.replace(trained.config, across_lines=across_lines))
        expected, found = [], []
        with model.precision():
            state, log_p = carries.start(model, ids[:5])
            for number in range(5, len(ids)):
                expected.append(model.log_prob([words.words[i] for i in ids[:number]]))
                found.append(log_p)
                carries.advance(model, state, int(ids[0]))
                state, log_p = carries.advance(model, state, int(ids[number]))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        of_events[across_lines] = np.take_along_axis(np.array(found), ids[5:, None], axis=1)[:, 0]
        np.testing.assert_allclose(of_events[across_lines], model.event_log_probs(ids)[5:], rtol=1e-4, atol=1e-5)
        assert np.std(of_events[across_lines]) > 0.1
    assert np.any(np.abs(of_events[True] - of_events[False]) > 1e-4)


@of(PREDICTING)
def test_only_scores_that_training_does_not_normalize_have_normalizers(case, place, trained):
    model, ids = case.load(trained(case)), place.corpus.valid
    found = model.log_normalizers(ids)
    shown = succeeds(jaxlm, "eval", trained(case), "--text", place.text["valid"])
    result = json.loads(succeeds(jaxlm, "eval", trained(case), "--text", place.text["valid"], "--json"))
    if getattr(model.config, "objective", None) != "nce":
        assert found is None
        assert "log Z" not in shown
        assert "log_normalizer_mean" not in result
        return
    assert len(found) == len(ids)
    assert (result["log_normalizer_mean"], result["log_normalizer_std"]) == pytest.approx((found.mean(), found.std()))
    assert f"log Z            mean {found.mean():.3f}, standard deviation {found.std():.3f} nats" in shown


@of(CASES)
@pytest.mark.filterwarnings("ignore:Good-Turing", "ignore:Kneser-Ney")
def test_a_loaded_model_is_the_trained_one(case, place, trained, tmp_path):
    model, ids = case.load(trained(case)), place.corpus.valid
    assert (model.name, len(model.vocabulary)) == (case.record.name, len(place.read_by(case.record).vocabulary))
    fitted = case.train(place, tmp_path / "again").model if case not in BY_SGD else model
    if PredictsWords in map(type, case.record.capabilities):
        np.testing.assert_array_equal(model.event_log_probs(ids), fitted.event_log_probs(ids))
    with pytest.raises(UserError, match="is there"):
        case.train(place, trained(case))
    assert "is there already" in is_refused(jaxlm, *case.argv(place, trained(case)))


def answers(model, place):
    """Return the numbers that a model gives for a text, documents and words, by each of its capabilities."""
    text, documents = place.corpus.valid, place.documents.valid
    found = {}
    if model.record.capability(PredictsWords):
        found |= {"text": model.event_log_probs(text), "word": model.log_prob("he saw")}
        found["normalizers"] = model.log_normalizers(text)
    if model.record.capability(EncodesDocuments):
        found["features"] = model.features(documents)
    if model.record.capability(PredictsDocuments):
        found |= {"documents": model.document_log_probs(documents), "bounds": model.document_bounds(documents)}
    if model.record.capability(Embeds):
        found |= {"vectors": model.vectors(), "neighbours": [cosine for _, cosine in model.neighbours("tea")]}
    return {name: np.asarray(numbers) for name, numbers in found.items() if numbers is not None}


@of(CASES)
def test_a_pickled_or_copied_model_gives_the_same_numbers(case, place, trained):
    model = case.load(trained(case))
    expected = answers(model, place)  # first, so that the model has cached what it does
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.record is case.record
        assert_same(answers(again, place), expected)


@of(CASES)
def test_a_model_gives_the_same_numbers_where_jax_makes_float64(case, place, trained):
    expected = answers(case.load(trained(case)), place)
    with jax.enable_x64(True):
        found = answers(case.load(trained(case)), place)
    assert_same(found, expected)
    assert {name: x.dtype for name, x in found.items()} == {name: x.dtype for name, x in expected.items()}


@of([case for case in BY_SGD if case.fitting.counts])
def test_words_that_training_never_saw_beside_others_have_no_vector(case, place, trained):
    """Such as the line end, which is no word of these models."""
    model, ids = case.load(trained(case)), place.corpus.train
    eos, seen = model.vocabulary.eos, np.zeros(len(model.vocabulary), bool)
    for line in np.split(ids, np.flatnonzero(ids == eos)):
        words = line[line != eos]
        seen[words] |= len(words) > 1
    assert not seen[eos]
    np.testing.assert_array_equal(np.any(model.vectors(), axis=1), seen)


@of(BY_SGD)
def test_safetensors_hold_the_parameters(case, trained, tmp_path):
    out = tmp_path / "model.safetensors"
    succeeds(jaxlm, "export", trained(case), "--format", "safetensors", "--out", out)
    arrays, params = load_file(out), named_arrays(case.load(trained(case)).params)
    assert params.keys() <= arrays.keys()
    assert_same({name: arrays[name] for name in params}, {name: np.asarray(x) for name, x in params.items()})
    for name in params:
        assert any(f"{name}/".startswith(f"{group}/") for group in case.fitting.parameters)


@of(CASES)
def test_a_folder_for_a_hub_is_the_same_model(case, place, trained, tmp_path):
    out = tmp_path / "hub"
    succeeds(jaxlm, "export", trained(case), "--format", "hub", "--out", out)
    model, again = case.load(trained(case)), case.load(out)
    assert {path.suffix for path in out.iterdir()} <= {".safetensors", ".json", ".txt", ".md"}
    assert (again.config, again.vocabulary.words) == (model.config, model.vocabulary.words)
    if case in BY_SGD:
        assert_same(again.params, model.params)
        for structure in filter(None, [case.record.structure_of(model.info["config"])]):
            np.testing.assert_array_equal(structure.arrays(again.structure), structure.arrays(model.structure))
    elif case.record.capability(PredictsWords):
        np.testing.assert_array_equal(*(each.event_log_probs(place.corpus.valid) for each in (again, model)))
    else:
        np.testing.assert_array_equal(*(each.features(place.documents.valid) for each in (again, model)))
    for path in out.glob("*.*"):
        assert str(place.folder).encode() not in path.read_bytes()


def cosine(vectors, word):
    lengths = np.linalg.norm(vectors, axis=1)
    return vectors @ vectors[word] / np.maximum(lengths * lengths[word], 1e-30)


@of(EMBEDDING)
def test_word_vectors_are_exported_and_have_neighbours(case, trained, tmp_path):
    model, others = case.load(trained(case)), case.record.capability(Embeds).others
    for name in (None, *others):
        vectors, out = model.vectors(name), tmp_path / f"{name}.txt"
        options = [] if name is None else ["--vectors", name]
        succeeds(jaxlm, "export", trained(case), "--format", "word2vec", "--out", out, *options)
        head, *lines = out.read_text().splitlines()
        assert tuple(map(int, head.split())) == vectors.shape
        assert [line.split()[0] for line in lines] == list(model.vocabulary.words)
        written = np.array([line.split()[1:] for line in lines], np.float32)
        np.testing.assert_array_equal(written, vectors.astype(np.float32))
        assert np.any(vectors)
        cosines = np.delete(cosine(vectors, tea := model.vocabulary.ids["tea"]), tea)
        assert model.neighbours("tea", 1, name)[0].cosine == pytest.approx(cosines.max(), abs=1e-5)
        assert len(succeeds(jaxlm, "neighbours", trained(case), "tea", "--top", "3", *options).split(",")) == 3
    refused = is_refused(jaxlm, "neighbours", trained(case), "tea", "--vectors", "none")
    assert f"choose from {', '.join(others)}" in refused if others else "it has one set" in refused


@of(OF_DOCUMENTS)
def test_documents_have_probabilities_and_vectors_whatever_the_others_are(case, place, trained):
    model, documents = case.load(trained(case)), place.documents.valid
    few = [4, 1]
    if case.record.capability(PredictsDocuments):
        log_probs = model.document_log_probs(documents, 2)
        assert np.all(log_probs < 0)
        assert np.std(log_probs / documents.lengths) > 0.01
        np.testing.assert_array_equal(model.document_log_probs(documents, 2), log_probs)
        shown = json.loads(succeeds(jaxlm, "eval", trained(case), "--text", place.text["valid"], "--json"))
        one = np.exp(-np.mean(model.document_log_probs(documents) / documents.lengths))
        assert shown["document_perplexity"] == pytest.approx(one, rel=1e-5)
    vectors = model.features(documents)
    assert vectors.shape[0] == len(documents)
    np.testing.assert_allclose(model.features(documents.take(few)), vectors[few], rtol=1e-5)


@of(COUNTED)
def test_arpa_files_hold_the_model(case, place, trained, tmp_path):
    out = tmp_path / "model.arpa"
    succeeds(jaxlm, "export", trained(case), "--format", "arpa", "--out", out)
    vocabulary, ids = place.corpus.vocabulary, place.corpus.valid
    lines = [" ".join(vocabulary.words[i] for i in ids[ids != vocabulary.eos][:3])]
    assert jaxlm.load(out).scores(lines) == pytest.approx(case.load(trained(case)).scores(lines), abs=1e-4)


@of(CASES)
def test_commands_do_what_the_record_offers_and_refuse_the_rest(case, place, trained, tmp_path):
    out, text = trained(case), place.text["test"]
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    commands = {
        "eval": ["--text", text], "score": [text], "next": ["he saw"], "sample": ["--lines", "1"],
        "complete": [tmp_path / "questions.csv"], "rescore": [tmp_path / "lists.tsv"], "neighbours": ["tea"],
        "analogies": [tmp_path / "analogies.txt"], "similarity": [tmp_path / "pairs.csv"], "tree": [],
        "features": [text, "--out", tmp_path / "vectors.txt"], "topics": [],
        **{form: ["--format", form, "--out", tmp_path / form] for form in FORMS},
    }  # fmt: skip
    for name, arguments in commands.items():
        command = name if name in FORMS else None
        argv = ["export" if command else name, out, *arguments]
        if name == "tree":
            able = isinstance(case.load(out).structure, Tree)
        else:
            able = any(isinstance(each, NEEDS[name]) for each in case.record.capabilities)
        if able:
            assert succeeds(jaxlm, *argv).strip()
        else:
            line = is_refused(jaxlm, *argv)
            assert f"; {case.record.name} has none" in line
    assert case.record.name in succeeds(jaxlm, "info", out)


@of(PREDICTING)
def test_every_model_that_predicts_words_draws_sentences_of_its_words(case, place, trained):
    argv = ["sample", trained(case), "--lines", "3", "--length", "6", "--prefix", "he saw", "--json"]
    lines = json.loads(succeeds(jaxlm, *argv))["lines"]
    assert len(lines) == 3
    for line in lines:
        words = line.removesuffix(" …").split()
        assert words[:2] == ["he", "saw"]
        assert len(words) <= 6
        assert set(words) <= set(place.corpus.vocabulary.words)
    assert json.loads(succeeds(jaxlm, *argv))["lines"] == lines
    assert json.loads(succeeds(jaxlm, *argv, "--seed", "2"))["lines"] != lines


@of(CASES)
def test_bad_options_of_the_model_are_one_line(case, place, tmp_path):
    argv = case.argv(place, tmp_path / "out")
    assert "--no-such-option" in is_refused(jaxlm, *argv, "--no-such-option", "1")
    for field in dataclasses.fields(case.record.config):
        option = f"--{field.name.replace('_', '-')}"
        if type(field.default) in (int, float):
            assert option in is_refused(jaxlm, *argv, option, "many")
            assert option in is_refused(jaxlm, *argv, option, "-1")
    assert not (tmp_path / "out").exists()


@of(PREDICTING)
def test_a_word_that_training_lacks_has_a_probability(case, place, trained, tmp_path):
    """No word of the training text is rare: `<unk>` never occurred."""
    vocabulary = place.corpus.vocabulary
    assert vocabulary.counts[vocabulary.unk] == 0
    (tmp_path / "t.txt").write_text("he zebra tea\n")
    model = case.load(trained(case))
    log_p = model.event_log_probs(model.encode(["he", "zebra", "tea"], end=True), fresh_lines=True)
    assert np.all(log_p > np.log(1e-7))
    assert "unknown words    1 (25.0 %)" in succeeds(jaxlm, "eval", trained(case), "--text", tmp_path / "t.txt")
