"""Training of every model that the engine fits: resumed, on many devices, compiled once, stopped where it diverges."""

import dataclasses
import re
from collections import Counter
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from cases import BATCH, assert_same, every, is_refused, journal, sampled
from jaxfit import fit, loop
from jaxfit.devices import platform
from jaxfit.errors import UserError
from jaxfit.minibatches import streaming
from jaxfit.run_dir import checkpoint

LONG = 40  # epochs
# without what keeps so few units from learning so short a text
PLAIN = {"dropout": 0.0, "feature_dropout": 0.0, "tied": False, "shared_noise": False}
CASES = [case for case in every() if case.by_sgd]


@pytest.fixture(scope="module")
def resumed(place, trained):
    """Return a function from a case to its training, killed in an epoch and resumed, beside the uninterrupted one."""
    results = {}

    def of(case):
        if str(case) not in results:
            whole, part = trained(case), place.folder / f"{case}-resumed"
            at = _killed(case, place, part)
            made, compiled = loop.make_run.cache_info().misses, []

            def listen(event, seconds, **more):
                if event.endswith("backend_compile_duration"):
                    compiled.append(str(more.get("fun_name")).removeprefix("jit(").removesuffix(")"))

            jax.monitoring.register_event_duration_secs_listener(listen)
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(fit, "CHUNK_SECONDS", 0.0)  # a step at a time
                    model = case.train(place, part, resume=True).model
            finally:
                jax.monitoring.unregister_event_duration_listener(listen)
            made = loop.make_run.cache_info().misses - made
            results[str(case)] = SimpleNamespace(
                whole=whole, part=part, at=at, model=model, made=made, compiled=Counter(compiled)
            )
        return results[str(case)]

    return of


def _killed(case, place, part):
    """Train until the second checkpoint of the model itself, and die; returns the step within the epoch."""
    steps, save = [], checkpoint.save

    def save_then_die(directory, arrays, state):
        save(directory, arrays, state)
        if directory == part:
            steps.append(state["progress"]["at"])
        if len(steps) == 2:
            raise ZeroDivisionError("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "CHUNK_SECONDS", 0.0)
        patch.setattr(checkpoint, "save", save_then_die)
        with pytest.raises(ZeroDivisionError, match="killed"):
            case.train(place, part, checkpoint_minutes=0)
    return steps[-1]


one_after_another = pytest.mark.parametrize("case", sampled(CASES), scope="module")


@one_after_another
def test_resume_within_an_epoch_matches_the_uninterrupted_run(case, resumed):
    it = resumed(case)
    assert it.at == 2
    assert_same(it.model.params, case.load(it.whole).params)
    assert journal(it.part) == journal(it.whole)


@one_after_another
def test_equal_programs_share_what_is_compiled_once_for_all_chunks_and_epochs(case, resumed):
    it = resumed(case)
    assert it.made == 0  # by the resumed training, beside the killed one's
    assert it.compiled["run"] == 0  # in what was left of two epochs, a step at a time
    assert it.compiled["sums"] <= 1


@one_after_another
def test_training_improves_on_the_start(case, place, trained, tmp_path):
    lines = journal(trained(case))
    metrics = [shown.partition(" ")[2] for shown in lines[0]["shown"]]
    if metrics[0] != metrics[-1]:  # what is trained is drawn, so that two short epochs do not tell
        recipe, _ = case.recipe
        fast = {name: 20 * rate for name, rate in recipe.rate.items()}
        longer = dataclasses.replace(recipe, epochs=LONG, patience=LONG, rate=fast, decay={})
        of_documents = getattr(case.record, "reads", None) == "documents"
        if of_documents:  # so few words that what is drawn of them varies more than it can fall: scores are exact
            place = place._replace(documents=place.documents._replace(valid=place.documents.train))
        fields = {field.name for field in dataclasses.fields(case.record.config)}
        case.train(place, tmp_path, longer, {name: value for name, value in PLAIN.items() if name in fields})
        lines = journal(tmp_path)
        if of_documents:
            assert lines[-1]["valid"] < 0.97 * lines[0]["valid"]
            return
        assert lines[-1]["train"] < 0.8 * lines[0]["train"]
    assert lines[-1]["train"] < lines[0]["train"]


@one_after_another
def test_eight_devices_equal_one(case, place, trained):
    out = place.folder / f"{case}-devices"
    try:
        many = case.train(place, out, devices=8).model
    except UserError as error:
        assert "--devices" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    one = case.load(trained(case))
    assert_same(one.params, many.params, rtol=1e-3, atol=1e-4)
    for a, b in zip(journal(trained(case)), journal(out), strict=True):
        assert a["valid"] == pytest.approx(b["valid"], rel=1e-4)


@one_after_another
def test_tables_split_over_devices_equal_whole_ones(case, place, trained):
    out = place.folder / f"{case}-split"
    try:
        split = case.train(place, out, devices=8, row_shards=4).model
    except UserError as error:
        assert "--row-shards" in str(error) or "--devices" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    one = case.load(trained(case))
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(split.params))
    assert_same(one.params, split.params, rtol=1e-3, atol=1e-4)
    for a, b in zip(journal(trained(case)), journal(out), strict=True):
        assert a["valid"] == pytest.approx(b["valid"], rel=1e-4)


@one_after_another
def test_data_in_the_hosts_memory_train_the_same_model(case, place, trained, monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 1 << 12)  # so that there are several blocks
    out, make, places = place.folder / f"{case}-streamed", fit.Trainer, set()

    def trainer(program, params, data, *given):
        places.update(*(array.devices() for array in jax.tree.leaves(data) if isinstance(array, jax.Array)))
        return make(program, params, data, *given)

    monkeypatch.setattr(fit, "Trainer", trainer)
    try:
        with jax.default_device(jax.devices()[5]):  # stands in for an accelerator
            streamed = case.train(place, out, stream=True).model
    except UserError as error:
        assert "--stream" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    assert places <= {platform.host()}
    assert_same(case.load(trained(case)).params, streamed.params, rtol=1e-4, atol=1e-5)
    for a, b in zip(journal(trained(case)), journal(out), strict=True):
        assert a["valid"] == pytest.approx(b["valid"], rel=1e-5)


@one_after_another
def test_a_loss_that_is_not_finite_stops_with_the_step_and_the_checkpoint(case, place, tmp_path):
    recipe = dataclasses.replace(case.recipe[0], rate={"*": 1e38}, decay={})
    # a structure may train models of its own first
    for _ in range(3):
        if case.train(place, tmp_path, recipe=recipe, max_minutes=0, resume=True).model is not None:
            break
    with pytest.raises(UserError, match=r"not finite (at|after) step \d+; the last good checkpoint is ") as error:
        case.train(place, tmp_path, recipe=recipe, resume=True)
    (stopped,) = re.findall(r"checkpoint is (.*)[/\\]checkpoint-\d+", str(error.value))  # of a model that comes first?
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(case.package.load(stopped, unfinished=True).params))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_options_are_one_line(case, place, tmp_path):
    argv = case.argv(place, tmp_path / "out")
    for option, value in {
        "--epochs": "0", "--batch-size": "some", "--rate": "fast", "--optimizer": "newton", "--patience": "-1",
        "--no-such-option": "1", "--recipe": "best", "--decay": "nothing=0.1",
    }.items():  # fmt: skip
        assert option in is_refused(case.package, *argv, option, value)
    assert "--batch-size" in is_refused(case.package, *argv, "--batch-size", BATCH + 1, "--devices", 8)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def accelerator(request, trained):
    """Run the other tests as on a GPU, once all models are trained: a change of platform forgets what was traced."""
    for item in request.session.items:
        if item.function is test_programs_of_an_accelerator_equal_those_of_a_cpu:
            trained(item.callspec.params["case"])
    with platform.tracing_for("gpu"):
        yield


@pytest.mark.parametrize("case", sampled(CASES))
def test_programs_of_an_accelerator_equal_those_of_a_cpu(case, place, trained, accelerator, monkeypatch):
    """With so little memory that whatever is taken in blocks is."""
    monkeypatch.setattr(platform, "HELD", 64)
    monkeypatch.setattr(loop, "LAUNCHED", 2)
    out = place.folder / f"{case}-accelerator"
    elsewhere = case.train(place, out).model
    here = case.load(trained(case))
    assert_same(here.params, elsewhere.params, rtol=1e-3, atol=1e-4)
    for a, b in zip(journal(trained(case)), journal(out), strict=True):
        assert a["valid"] == pytest.approx(b["valid"], rel=1e-4)
