"""Skip-gram and CBOW against the formulas of their papers, windows found by loops, a text with clusters of words."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare, kstest, norm

import jaxlm.cli.main
from jaxfit import tables
from jaxfit.errors import UserError
from jaxfit.run_dir.run import Run
from jaxlm.capabilities import Embeds, PredictsWords
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.models.word2vec import blocks, model, outputs, skipgram
from jaxlm.objectives import noise, sampled
from jaxlm.objectives.tree import codes
from jaxlm.tasks.neighbours import nearest
from jaxlm.trained_model import Model
from jaxlm.training import train
from jaxlm.trees import build
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import paths
from word2vec_cases import COUNTS, EOS, MODELS, N_W, TEXT, TREE, WINDOW, D, config, random_params

LIMIT = norm.isf(1e-6)  # of a z-score


def lines_of(ids):
    """Return the words of each line, without its end."""
    return [line[line != EOS] for line in np.split(ids, np.flatnonzero(ids == EOS) + 1)]


def windows_by_loop(lines, radius=lambda: WINDOW):
    """Return for each word in turn the words around it."""
    found = []
    for line in lines:
        for place, word in enumerate(line):
            r = radius()
            around = [line[q] for q in range(len(line)) if 0 < abs(q - place) <= r]
            found.append((int(word), sorted(map(int, around))))
    return found


def windows_of(data, cfg):
    """Return the same from blocks, as a minibatch gathers them."""
    words, left, right = blocks.gather(data, jnp.arange(blocks.num_blocks(data)), cfg)
    held = blocks.band(blocks.Blocks(words, left, right, None), cfg)
    found = []
    for block in range(len(words)):
        for m in range(cfg.block_size):
            around = sorted(np.asarray(words[block])[np.asarray(held[block, m])].tolist())
            if left[block, m] >= 0:
                found.append((int(words[block, cfg.window + m]), around))
            else:
                assert not around
    return found


@pytest.mark.parametrize("across_lines", [False, True])
def test_windows_are_those_of_a_loop_over_lines(across_lines):
    cfg, lines = config(across_lines=across_lines), lines_of(TEXT)
    expected = windows_by_loop([np.concatenate(lines)] if across_lines else lines)
    data = blocks.data(TEXT, EOS, cfg, None)
    assert windows_of(data, cfg) == expected
    assert blocks.num_words(data) == len(expected)


def test_a_word_is_left_where_subsampling_leaves_out_all():
    cfg = config(subsample=1e-30)
    drawn = blocks.redraw(model.texts(cfg, EOS)(TEXT), jax.random.key(0), cfg)
    assert blocks.num_words(drawn) == 1
    assert blocks.window_sizes(blocks.Blocks(None, drawn.left, drawn.right, None)).sum() == 0


def test_redrawn_windows_are_narrowed_on_both_sides_alike_and_of_all_widths():
    cfg = config(across_lines=True)
    text = np.random.default_rng(1).integers(1, N_W, 3000).astype(np.int32)
    data = blocks.data(text, EOS, cfg, None)
    drawn = blocks.redraw(data, jax.random.key(0), cfg)
    np.testing.assert_array_equal(drawn.words, data.words)
    left, right = (np.ravel(side)[WINDOW : len(text) - WINDOW] for side in (drawn.left, drawn.right))
    np.testing.assert_array_equal(left, right)
    assert chisquare(np.bincount(left, minlength=WINDOW + 1)[1:]).pvalue > 1e-6
    again, other = (blocks.redraw(data, jax.random.key(seed), cfg) for seed in (0, 1))
    np.testing.assert_array_equal(again.left, drawn.left)
    assert np.any(np.asarray(other.left) != drawn.left)


def test_frequent_words_are_left_out_as_often_as_the_formula_says():
    cfg = config(subsample=0.02)
    rng = np.random.default_rng(2)
    text = rng.choice(N_W, p=np.array([4, 20, 10, 1, 1, 1, 1, 1, 1]) / 40, size=40_000).astype(np.int32)
    counts = np.bincount(text[text != EOS], minlength=N_W)
    f = np.maximum(counts, 1) / counts.sum()
    share = np.minimum(1, (np.sqrt(f / 0.02) + 1) * 0.02 / f)  # as the authors' program writes it
    assert 0.1 < share.min() < 0.3
    data = blocks.data(text, EOS, cfg, None)
    drawn = blocks.redraw(data, jax.random.key(3), cfg)
    kept = np.bincount(np.asarray(drawn.words[WINDOW : WINDOW + int(drawn.events)]), minlength=N_W)
    deviation = np.sqrt(counts * share * (1 - share)) + 1e-9
    assert np.all(np.abs(kept - counts * share) <= LIMIT * deviation + 1e-6)
    assert drawn.words.shape == data.words.shape
    assert drawn.left.shape == data.left.shape


def test_windows_reach_over_words_left_out_but_not_over_line_ends():
    cfg = config(subsample=0.001)
    data = blocks.data(TEXT, EOS, cfg, None)
    drawn = blocks.redraw(data, jax.random.key(4), cfg)
    number = int(drawn.events)
    assert 20 < number < 150
    place = np.cumsum(TEXT == EOS)[TEXT != EOS]  # lines of the text's words
    kept = np.asarray(drawn.words[WINDOW : WINDOW + number])
    uniform, radius = blocks._draws(jax.random.key(4), len(place), WINDOW)
    share = blocks.kept_share(np.bincount(TEXT[TEXT != EOS], minlength=N_W), 0.001)
    stays = np.asarray(uniform) < share.astype(np.float32)[TEXT[TEXT != EOS]]
    widths = iter(np.asarray(radius)[stays].tolist())
    lines = [TEXT[TEXT != EOS][stays & (place == line)] for line in range(place.max() + 1)]
    np.testing.assert_array_equal(np.concatenate(lines), kept)
    assert windows_of(drawn, cfg) == windows_by_loop(lines, lambda: next(widths))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_nats(C, x, word, noise_words, cfg):
    """-log p of a prediction, Mikolov et al. 2013b: Eq. 4, or Eq. 3 with the tree's codes found by descent."""
    if cfg.objective == "negative":
        total = -np.log(sigmoid(C[word] @ x))
        for other in noise_words:
            total -= cfg.num_noise / len(noise_words) * np.log(sigmoid(-C[other] @ x))
        return total
    found, p = paths(TREE), 1.0
    for entry in range(found.code_nodes[word], found.code_nodes[word + 1]):
        p *= sigmoid(found.signs[entry] * (C[found.nodes[entry]] @ x))
    return -np.log(p)


@MODELS
@pytest.mark.parametrize(
    "options",
    [{"objective": "tree"}, {"num_noise": 6, "block_noise": 6}, {"num_noise": 5, "block_noise": 12}],
    ids=["tree", "negative", "negative-shares"],
)
def test_loss_of_a_text_is_the_paper_s_formula(module, options):
    """With as many words of noise as predictions take, and with more, each for its share."""
    cfg = config(**options)
    params = random_params(cfg)
    data = model.texts(cfg, EOS, *[TREE] * (cfg.objective == "tree"))(TEXT)
    data = blocks.redraw(data, jax.random.key(1), cfg)
    index = jnp.arange(blocks.num_blocks(data))
    batch = model.gather(data, index, 0, cfg)
    if cfg.objective == "negative":
        batch = model.with_noise(batch, jax.random.key(2), jnp.zeros(()), cfg)
    W, C = (np.asarray(x, np.float64) for x in params)
    expected, words_of_block, pairs = np.zeros(len(index)), np.zeros(len(index)), 0
    for place, (word, around) in enumerate(windows_of(data, cfg)):
        block = place // cfg.block_size
        words_of_block[block] += 1
        words = np.asarray(batch.aux[block]) if cfg.objective == "negative" else None
        inputs = [W[other] for other in around] if module is skipgram else [W[around].mean(axis=0)] if around else []
        for x in inputs:
            expected[block] += numpy_nats(C, x, word, words, cfg)
            pairs += 1
    assert pairs > 100
    weight = np.linspace(0.5, 2, len(index)).astype(np.float32)
    rows = tables.gathered(params, model.touched(batch, cfg))
    total, metrics = jax.jit(module.batch_loss, static_argnums=4)(rows, batch, weight, None, cfg)
    np.testing.assert_allclose(total, weight @ expected, rtol=1e-5)
    (mean,) = metrics.values()  # over words
    np.testing.assert_allclose((mean.total, mean.count), (weight @ expected, weight @ words_of_block), rtol=1e-5)
    specified = jax.jit(jax.vmap(lambda example: module.loss(params, example, cfg)))(batch)
    np.testing.assert_allclose(specified, expected, rtol=1e-4)


def test_noise_shared_by_a_block_has_the_expectation_of_noise_of_its_own():
    cfg = config(num_noise=3, block_noise=4)
    params, counts = random_params(cfg), COUNTS
    source = sampled.Source(noise.unigram(counts, 0.75), jnp.arange(2000))
    drawn = blocks.draw_noise(source, jax.random.key(5), cfg.block_noise)
    x, word = params.W[1], jnp.int32(2)
    losses = np.asarray(jax.vmap(lambda aux: outputs.nats(params.C, x, word, aux, cfg))(drawn))
    p = np.maximum(counts, 1) ** 0.75 / np.sum(np.maximum(counts, 1) ** 0.75)
    scores = np.asarray(params.C @ x, np.float64)
    expected = -np.log(sigmoid(scores[2])) - 3 * p @ np.log(sigmoid(-scores))  # E over k words of noise
    z = (losses.mean() - expected) / (losses.std() / np.sqrt(len(losses)))
    assert abs(z) < LIMIT
    assert losses.std() > 0.01


def test_noise_has_the_frequencies_of_the_words_of_the_text_to_the_power_that_is_given():
    cfg = config(noise_power=0.5)
    data = model.texts(cfg, EOS)(TEXT)
    expected = np.sqrt(np.maximum(np.bincount(TEXT[TEXT != EOS], minlength=N_W), 1))
    np.testing.assert_allclose(np.exp(data.noise.log_p), expected / expected.sum(), rtol=1e-5)
    drawn = blocks.redraw(data, jax.random.key(0), dataclasses.replace(cfg, subsample=0.01))
    np.testing.assert_array_equal(drawn.noise.log_p, data.noise.log_p)


def test_noise_of_neighbouring_blocks_is_independent():
    cfg, number = config(block_noise=6), 5000
    p = np.full(N_W, 1 / N_W)
    source = sampled.Source(noise.unigram(COUNTS, 0.0), jnp.arange(number))
    drawn = np.asarray(blocks.draw_noise(source, jax.random.key(5), cfg.block_noise))
    for first, second in ((drawn[:-1, 1:], drawn[1:, :-1]), (drawn[:-1], drawn[1:]), (drawn[:, 1:], drawn[:, :-1])):
        equal = first == second
        assert abs(equal.mean() - p @ p) < LIMIT * np.sqrt(p @ p * (1 - p @ p) / equal.size)


def test_going_down_the_tree_is_a_distribution_over_words():
    cfg = config(objective="tree")
    params, words = random_params(cfg), jnp.arange(N_W)
    paths = outputs.padded_paths(codes(TREE), words)
    nats = jax.vmap(lambda word, aux: outputs.nats(params.C, params.W[3], word, aux, cfg))(words, paths)
    np.testing.assert_allclose(np.exp(-np.asarray(nats)).sum(), 1, rtol=1e-5)


def test_initial_vectors_are_uniform_between_plus_and_minus_half_of_one_over_their_size():
    params = model.init(jax.random.key(0), dataclasses.replace(config(), num_words=2000), np.ones(2000))
    assert kstest(D * np.ravel(params.W), "uniform", (-0.5, 1)).pvalue > 1e-6
    assert not np.any(params.C)


@MODELS
def test_words_that_do_not_occur_have_zero_vectors(module):
    params = model.init(jax.random.key(0), config(), np.array([3, 0, 1, 1, 1, 1, 0, 1, 1]))
    lengths = np.linalg.norm(module.MODEL.capability(Embeds).vectors(params), axis=1)
    assert np.array_equal(lengths == 0, [False, True, False, False, False, False, True, False, False])
    assert module.MODEL.capability(PredictsWords) is None  # hence no perplexity


@MODELS
def test_predicted_words_have_vectors_of_their_own_unless_a_tree_predicts(module):
    vocabulary = Vocabulary(("<eos>", *map(str, range(1, N_W))))
    by_noise, by_tree = (
        Model(module.MODEL, vocabulary, cfg, random_params(cfg), {}) for cfg in (config(), config(objective="tree"))
    )
    np.testing.assert_array_equal(by_noise.vectors(), by_noise.params.W)
    np.testing.assert_array_equal(by_noise.vectors("C"), by_noise.params.C)
    with pytest.raises(UserError, match="has no word vectors 'C'"):
        by_tree.vectors("C")


def test_a_text_without_windows_is_an_error():
    with pytest.raises(UserError, match="no two words near one another"):
        blocks.data(np.array([3, EOS], np.int32), EOS, config(), None)
    apart = np.array([3, EOS, 4, EOS, 5, EOS], np.int32)
    with pytest.raises(UserError, match="longer lines, or --context-across-lines"):
        blocks.data(apart, EOS, config(across_lines=False), None)
    blocks.data(apart, EOS, config(across_lines=True), None)


def clusters(lines, seed):
    """Draw a text of three clusters of eight words: a line draws from one cluster, and from four words of all lines."""
    rng = np.random.default_rng(seed)
    drawn = np.where(
        rng.random((lines, 8)) < 0.3, rng.integers(1, 5, (lines, 8)),
        5 + 8 * rng.integers(0, 3, lines)[:, None] + rng.integers(0, 8, (lines, 8)),
    )  # fmt: skip
    return np.concatenate([drawn, np.zeros((lines, 1))], axis=1).astype(np.int32).reshape(-1)


@pytest.mark.extended
@MODELS
@pytest.mark.parametrize("objective", ["negative", "tree"])
def test_words_of_the_same_contexts_become_neighbours(module, objective, tmp_path):
    vocabulary = Vocabulary(("<eos>", *(f"w{i}" for i in range(1, 29))))
    corpus = Corpus("clusters", clusters(1500, 0), clusters(300, 1), np.zeros(0, np.int32), vocabulary, "", "")
    recipe, _ = module.MODEL.recipe("tuned")
    options = {"num_features": 10, "objective": objective, "subsample": 0.1}
    found = train(module.MODEL.name, corpus, tmp_path, config=options, recipe=recipe, run=Run()).model
    vectors = found.vectors()
    right = collections.Counter(
        (word - 5) // 8 == (other - 5) // 8 for word in range(5, 29) for other in nearest(vectors, word, 7)[0]
    )
    assert right[True] > 0.95 * sum(right.values())


def test_a_tree_is_given_as_a_file(tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("".join(f"{'abcdefgh'[i % 8]} {'abcdefgh'[i * 5 % 8]} c d\n" for i in range(60)))
    argv = ["train", "cbow", "--train", str(text), "--quiet", "--epochs", "1"]

    def run(*more):
        return jaxlm.cli.main.main([*argv, *more])

    assert run("--objective", "tree", "--out", str(tmp_path / "huffman")) == 0
    words = jaxlm.load(tmp_path / "huffman").vocabulary.words
    given = build.random_tree(jax.random.key(0), len(words))
    tree_file.save(given, tmp_path / "tree.npz", words)
    of_file = ("--tree", str(tmp_path / "tree.npz"))
    assert run("--objective", "tree", "--out", str(tmp_path / "given"), *of_file) == 0
    np.testing.assert_array_equal(jaxlm.load(tmp_path / "given").structure.children, given.children)
    capsys.readouterr()
    assert run("--out", str(tmp_path / "no"), *of_file) == 2
    assert "give --objective tree" in capsys.readouterr().err


@MODELS
@pytest.mark.parametrize("options", [{}, {"objective": "tree"}], ids=["negative", "tree"])
def test_gradients_have_the_type_of_the_parameters(module, options):
    cfg = config(**options)
    params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), random_params(cfg))
    data = model.texts(cfg, EOS, *[TREE] * (cfg.objective == "tree"))(TEXT)
    batch = model.gather(data, jnp.arange(3), 0, cfg)
    read, batch = blocks.read(params, batch, module.program(cfg))
    gradient = jax.jit(jax.grad(lambda read: jnp.sum(module.per_block(read, batch, cfg))))(read)
    assert {x.dtype for x in gradient} == {jnp.dtype(jnp.bfloat16)}
