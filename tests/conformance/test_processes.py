"""Every model that the engine fits is trained by two processes, of four devices each, as by one device."""

import os
import re
import socket
import subprocess
import sys

import pytest

import jaxcf
import jaxlm
import one_process
from cases import assert_same, every, journal
from jaxfit.errors import UserError

CASES = [case for case in every() if case.by_sgd]
SECONDS = 1200  # for all models
# a model whose tables are read by rows, of words, which `end_to_end/test_train_processes.py` trains, too; one of
# ratings; one whose tables are read whole
SAMPLE = [
    next(case for case in CASES if case.package is jaxlm and case.record.structure_of({})),
    next(case for case in CASES if case.package is jaxcf),
    CASES[0],
]


def marks(case):
    """Return extended for the sample, slow for all other cases; `jaxfit/devices/test_distributed.py` is always run."""
    return pytest.mark.extended if case in SAMPLE else pytest.mark.slow


@pytest.fixture(scope="module")
def by_two(request, tmp_path_factory):
    """Return the folder of the models that two processes have trained, of all cases that are to be tested."""
    folder = tmp_path_factory.mktemp("two-processes")
    items = [item for item in request.session.items if item.path == request.path]
    names = list(dict.fromkeys(str(item.callspec.params["case"]) for item in items))
    with socket.socket() as server:
        server.bind(("localhost", 0))
        port = server.getsockname()[1]
    both = []
    try:
        for me in ("0", "1"):
            with (folder / f"said-{me}").open("w") as said:
                both.append(subprocess.Popen(
                    [sys.executable, one_process.__file__, str(port), me, str(folder), *names],
                    env={**os.environ, "JAX_PLATFORMS": "cpu"}, stdout=subprocess.DEVNULL, stderr=said,
                ))  # fmt: skip
        for process in both:
            process.wait(SECONDS)
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == [0, 0], [(folder / f"said-{me}").read_text() for me in (0, 1)]
    return folder


@pytest.mark.parametrize("row_shards", one_process.ROW_SHARDS)
@pytest.mark.parametrize("case", [pytest.param(case, id=str(case), marks=marks(case)) for case in CASES])
def test_two_processes_of_four_devices_equal_one_device(case, row_shards, by_two, trained, place, tmp_path):
    two = by_two / f"{case}-{row_shards}"
    refused = two.with_name(f"{two.name}.refused")
    if refused.exists():  # as one process with as many devices does
        with pytest.raises(UserError, match=re.escape(refused.read_text())):
            case.train(place, tmp_path / "one-process", devices=8, row_shards=row_shards)
        return
    one = trained(case)
    assert_same(case.load(one).params, case.load(two).params, rtol=1e-3, atol=1e-4)
    for a, b in zip(journal(one), journal(two), strict=True):
        assert a["valid"] == pytest.approx(b["valid"], rel=1e-4)
