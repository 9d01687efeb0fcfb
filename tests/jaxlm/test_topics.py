"""Topics as inputs: mixtures against scikit-learn's, of words before alone; the models that read them."""

import dataclasses
import importlib.util
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import jaxlm
from jaxfit.errors import UserError
from jaxlm import topics
from jaxlm.capabilities import CarriesState
from jaxlm.cli.main import main
from jaxlm.context_model import examples, gather
from jaxlm.context_model import texts as texts_of_contexts
from jaxlm.models import lbl
from jaxlm.models.recurrent import lstm, network
from jaxlm.models.recurrent.windows import gather as gather_windows
from jaxlm.models.recurrent.windows import texts as texts_of_windows
from jaxlm.topics import TOPICS, TopicOptions, Topics
from small_models import SMALL, write_text

decomposition = pytest.importorskip("sklearn.decomposition", reason="no scikit-learn: pip install -e '.[topics]'")

N_W, K, W, EOS = 12, 3, 7, 0
OPTIONS = TopicOptions(num_topics=K, topic_window=W)
LBL = lbl.Config(num_words=N_W, num_features=4, context_size=2, num_topics=K, topic_window=W)
LSTM = lstm.Config(num_words=N_W, num_features=4, num_hidden=5, window=6, num_topics=K, topic_window=W)


@pytest.fixture(scope="module")
def ids():
    """Draw a text of two halves with words of their own, and with lines of 2 to 9 words."""
    rng = np.random.default_rng(0)
    halves = [rng.integers(1, 7, 400), rng.integers(6, N_W - 1, 400)]  # the last word does not occur
    text = np.concatenate(halves).astype(np.int32)
    text[np.cumsum(rng.integers(3, 11, 70))] = EOS
    text[500:502] = EOS  # an empty line
    return text


def words_before(ids, event, across_lines):
    """Find the words, but for line ends, among the last W events before an event, by a loop."""
    found = []
    for i in range(event - 1, max(0, event - W) - 1, -1):
        if ids[i] == EOS and not across_lines:
            break
        found += [ids[i]] if ids[i] != EOS else []
    return found


def counted(texts):
    return np.array([np.bincount(text, minlength=N_W) for text in texts], np.float64)


@pytest.fixture(scope="module")
def fitted(ids):
    """Fit scikit-learn's own model to blocks of W events."""
    blocks = [[w for w in ids[i : i + W] if w != EOS] for i in range(0, len(ids), W)]
    model = decomposition.LatentDirichletAllocation(K, random_state=5)
    return model.fit(counted([np.array(block, int) for block in blocks]))


@pytest.fixture(scope="module")
def found(ids):
    return topics.fit(ids, N_W, EOS, OPTIONS, seed=5)


def test_topics_are_fitted_to_blocks_of_the_text(found, fitted):
    np.testing.assert_allclose(found.words, fitted.components_, rtol=1e-6)


@pytest.mark.parametrize("across_lines", [True, False])
def test_mixtures_are_those_that_scikit_learn_infers_from_the_words_before(ids, found, fitted, across_lines):
    expected = fitted.transform(counted([np.array(words_before(ids, n, across_lines), int) for n in range(len(ids))]))
    ours = topics.mixtures(found, ids, EOS, OPTIONS, across_lines)
    np.testing.assert_allclose(ours, expected, atol=2e-5)
    np.testing.assert_allclose(ours[0], 1 / K, rtol=1e-6)
    assert np.std(ours, axis=0).min() > 0.1
    few = topics.mixtures(found, ids, EOS, OPTIONS, across_lines, len(ids) - 3)
    np.testing.assert_array_equal(few, ours[-3:])


def test_a_prediction_infers_few_windows_by_weights_that_are_computed_once(ids, found, monkeypatch):
    seen, inner = [], topics._mixtures
    monkeypatch.setattr(topics, "_mixtures", lambda *given: seen.append(given) or inner(*given))
    for _ in range(2):
        topics.mixtures(found, ids, EOS, OPTIONS, False, len(ids) - 1)
    (one, windows), (other, _) = seen
    assert one is other
    assert len(windows) == topics.CACHED


def test_mixtures_tell_what_a_text_is_about(ids):
    two = dataclasses.replace(OPTIONS, num_topics=2)
    found = topics.mixtures(topics.fit(ids, N_W, EOS, two, seed=1), ids, EOS, two, True)
    first = np.argmax(found[:400].mean(axis=0))
    assert np.mean(np.argmax(found[20:400], axis=1) == first) > 0.95
    assert np.mean(np.argmax(found[420:], axis=1) == first) < 0.05


def test_later_words_change_no_mixture_before_them(ids, found):
    changed = ids.copy()
    changed[300:] = np.roll(ids[300:], 17)
    for across_lines in (True, False):
        one, two = (topics.mixtures(found, text, EOS, OPTIONS, across_lines) for text in (ids, changed))
        np.testing.assert_array_equal(one[:301], two[:301])
        assert np.any(one[301:] != two[301:])


def test_with_topics_of_no_weight_the_lbl_is_that_without(ids, found):
    plain = dataclasses.replace(LBL, num_topics=0)
    params = lbl.init(jax.random.key(0), LBL, np.ones(N_W), found)
    without = lbl.init(jax.random.key(0), plain, np.ones(N_W))
    assert without.T is None
    assert not np.any(params.T)
    index = jnp.arange(len(ids))
    with_topics = gather(texts_of_contexts(LBL, EOS, found)(ids), index, 0, LBL)
    alone = gather(texts_of_contexts(plain, EOS)(ids), index, 0, plain)
    assert alone.topics is None
    nats = lbl.score(params, with_topics, LBL)
    np.testing.assert_array_equal(nats, lbl.score(without, alone, plain))
    np.testing.assert_array_equal(alone.context, examples(ids, 2, EOS)[0])
    assert np.any(lbl.score(params._replace(T=params.T + 1), with_topics, LBL) != nats)


def test_the_lbl_adds_the_mean_vector_of_topics_to_the_prediction(ids, found):
    rng, start = np.random.default_rng(1), lbl.init(jax.random.key(0), LBL, np.ones(N_W), found)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), start)
    batch = gather(texts_of_contexts(LBL, EOS, found)(ids), jnp.array([40, 600]), 0, LBL)
    θ = topics.mixtures(found, ids, EOS, OPTIONS, True)
    for n, event in enumerate((40, 600)):
        r_hat = sum(C @ params.R[ids[event - 2 + i]] for i, C in enumerate(params.C))
        r_hat = r_hat + sum(θ[event, k] * params.T[k] for k in range(K))
        scores = params.R @ r_hat + params.b
        expected = np.log(np.sum(np.exp(scores))) - scores[ids[event]]
        np.testing.assert_allclose(lbl.score(params, batch, LBL)[n], expected, rtol=1e-4, atol=1e-5)


def test_cells_read_the_mixture_beside_the_vector_of_the_word_before(ids, found):
    """With the weights of topics zero, a recurrent model is that without topics; else it is not."""
    plain = dataclasses.replace(LSTM, num_topics=0)
    params = network.init(jax.random.key(0), LSTM, np.ones(N_W), found)
    gates = params.cells[0]
    assert gates["ii"]["kernel"].shape == (4 + K, 5)

    def cut(keep):
        inputs = {name: {"kernel": gates[name]["kernel"] * keep} for name in gates if name.startswith("i")}
        return params._replace(cells=({**gates, **inputs},))

    no_weight = cut(np.array([1] * 4 + [0] * K)[:, None])
    rows = {name: {"kernel": gates[name]["kernel"][:4]} for name in gates if name.startswith("i")}
    without = params._replace(cells=({**gates, **rows},))

    def nats(params, config, structure=None):
        data = texts_of_windows(config, EOS, structure)(ids)
        windows = gather_windows(data, jnp.arange(3), 0, config)
        states = jax.tree.map(lambda s: jnp.zeros((3, *s.shape)), network.start(config))
        return network.event_nats(params, network.Carried(windows, states), config)[0]

    np.testing.assert_allclose(nats(no_weight, LSTM, found), nats(without, plain), rtol=1e-5)
    assert np.max(np.abs(nats(params, LSTM, found) - nats(without, plain))) > 1e-3


FEW = ["--num-topics", "3", "--topic-window", "20"]
MODELS = {
    "lbl": [*SMALL, *FEW, "--rate", "0.05"],
    "rnn": ["--num-features", "4", "--num-hidden", "5", "--no-tied", "--batch-size", "4", "--epochs", "2", *FEW],
}
LINE = ["The", "he", "saw", "it"]
each = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Make a folder with a text and a model of each name, trained on it."""
    folder = tmp_path_factory.mktemp("topics")
    text = write_text(folder / "text.txt", seed=1)
    for name, options in MODELS.items():
        assert main(["train", name, "--train", text, "--valid", text, *options, "--out", str(folder / name)]) == 0
    return folder


@each
def test_predictions_of_a_trained_model_are_of_the_words_before(trained, name):
    model = jaxlm.load(trained / name)
    assert isinstance(model.structure, Topics)
    text = model.encode([*LINE, "The", "she", "took", "tea", "The", "nobody", "liked", "bread"], end=True)
    other = np.append(text[:8], np.roll(text[8:], 2))
    one, two = (model.event_log_probs(ids) for ids in (text, other))
    np.testing.assert_allclose(one[:8], two[:8], rtol=1e-6)
    assert np.any(np.abs(one[8:] - two[8:]) > 1e-4)
    others = Topics(np.ascontiguousarray(model.structure.words[:, ::-1]))
    changed = dataclasses.replace(model, structure=others)
    assert np.any(np.abs(changed.event_log_probs(text) - one) > 1e-5)
    assert np.any(np.abs(changed.log_prob(LINE) - model.log_prob(LINE)) > 1e-6)


@pytest.mark.parametrize("across_lines", [True, False])
def test_a_state_carried_from_word_to_word_has_the_topics_of_the_words_before(trained, across_lines):
    """Over more words than topics are inferred from."""
    model = jaxlm.load(trained / "rnn")
    config = dataclasses.replace(model.config, across_lines=across_lines, topic_window=W)
    model, carries = dataclasses.replace(model, config=config), model.record.capability(CarriesState)
    text = model.encode([*LINE, "<eos>", "The", "she", "took", "tea", "The", "nobody", "<eos>", "liked", "bread"])
    assert len(text) > W
    with model.precision():
        state, log_p = carries.start(model, text[:0])
        for number, word in enumerate(text):
            expected = model.log_prob([model.vocabulary.words[i] for i in text[:number]])
            np.testing.assert_allclose(log_p, expected, rtol=1e-5)
            state, log_p = carries.advance(model, state, word)
        changed = dataclasses.replace(model, structure=Topics(np.ascontiguousarray(model.structure.words[:, ::-1])))
        one, two = (carries.advance(each, state, text[0])[1] for each in (model, changed))
    assert np.any(np.abs(one - two) > 1e-6)


@each
def test_commands_use_the_topics_that_the_folder_holds(trained, name, call, tmp_path):
    text = trained / "text.txt"
    record = json.loads(call("eval", trained / name, "--text", text, "--json"))
    mixed = json.loads(call("eval", trained / name, "--text", text, "--mix", trained / "lbl", "--json"))
    assert 1 < record["perplexity"] < 70
    assert 1 < mixed["perplexity"] < 70
    assert call("next", trained / name, "The he saw")
    assert call("sample", trained / name, "--lines", 2, "--length", 5)
    assert len(call("score", trained / name, text).splitlines()) >= 120
    out = tmp_path / "model.safetensors"
    call("export", trained / name, "--format", "safetensors", "--out", out)
    np.testing.assert_array_equal(load_file(out)["topics"], jaxlm.load(trained / name).structure.words)


def test_a_training_goes_on_with_the_topics_of_its_start(trained, tmp_path, monkeypatch):
    argv = ["train", "lbl", "--train", str(trained / "text.txt"), "--valid", str(trained / "text.txt"), *MODELS["lbl"]]
    assert main([*argv, "--out", str(tmp_path / "m"), "--max-minutes", "0"]) == 0
    monkeypatch.setattr(topics, "fit", None)  # it would fail
    assert main([*argv, "--out", str(tmp_path / "m"), "--resume"]) == 0
    one, two = (jaxlm.load(folder) for folder in (trained / "lbl", tmp_path / "m"))
    jax.tree.map(np.testing.assert_array_equal, one.params, two.params)


def test_a_damaged_file_of_topics_is_one_line(tmp_path, trained):
    good = jaxlm.load(trained / "lbl").structure
    TOPICS.save(good, tmp_path)
    np.testing.assert_array_equal(TOPICS.load(tmp_path, good.words.shape[1]).words, good.words)
    for words, said in (
        (good.words[:, 1:], "words for a vocabulary"), (good.words[0], "not a file of topics"),
        (-good.words, "not a file of topics"), (good.words.astype(float), "not a file of topics"),
        (np.full_like(good.words, np.nan), "not a file of topics"),
    ):  # fmt: skip
        TOPICS.save(Topics(words), tmp_path)
        with pytest.raises(UserError, match=said):
            TOPICS.load(tmp_path, good.words.shape[1])
    for content, said in ((b"PK", "not a file of topics"), (None, "no such file")):
        (tmp_path / "topics.npz").unlink()
        if content is not None:
            (tmp_path / "topics.npz").write_bytes(content)
        with pytest.raises(UserError, match=said):
            TOPICS.load(tmp_path, 3)
        (tmp_path / "topics.npz").touch()


def complaint(argv, capsys):
    capsys.readouterr()
    assert main([str(argument) for argument in argv]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    return line


def test_changed_topics_are_damage(trained, tmp_path, capsys):
    shutil.copytree(trained / "lbl", tmp_path / "m")
    TOPICS.save(Topics(jaxlm.load(trained / "lbl").structure.words + 1), tmp_path / "m")
    assert "topics.npz is missing or changed" in complaint(["next", tmp_path / "m", "The"], capsys)


def test_what_does_not_go_with_topics_is_one_line(trained, tmp_path, capsys, monkeypatch):
    text = trained / "text.txt"
    train = ["train", "lbl", "--train", text, *SMALL, *FEW, "--out", tmp_path / "m"]
    assert "--num-topics" in complaint([*train, "--objective", "tree"], capsys)
    assert "--targets contexts" in complaint([*train, "--targets", "contexts"], capsys)
    assert "--num-topics" in complaint([*train, "--num-topics", "1001"], capsys)
    other = [*train, "--init", trained / "lbl", "--topic-window", "10"]
    assert "it is not over the same topics" in complaint(other, capsys)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "scikit-learn is not installed (--num-topics) - pip install -e '.[topics]'" in complaint(train, capsys)
    assert not (tmp_path / "m" / "config.json").exists()


def test_a_model_without_topics_has_nothing_of_them(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    argv = ["train", "lbl", "--train", str(trained / "text.txt"), *SMALL, "--out", str(tmp_path / "m")]
    assert main(argv) == 0
    model = jaxlm.load(tmp_path / "m")
    assert not (tmp_path / "m" / "topics.npz").exists()
    assert model.structure is None
    assert "T" not in model.sizes()
