"""Every model that the engine fits is trained by two processes, of four devices each, as by one device."""

import os
import socket
import subprocess
import sys

import pytest

import one_process
from cases import assert_same, every, journal

CASES = [case for case in every() if case.by_sgd]
SAMPLE = CASES[::9]


@pytest.fixture(scope="module")
def by_two(request, tmp_path_factory):
    """The folder of the models that two processes have trained, of all cases that are to be tested."""
    folder = tmp_path_factory.mktemp("two-processes")
    items = [item for item in request.session.items if item.path == request.path]
    names = list(dict.fromkeys(str(item.callspec.params["case"]) for item in items))
    with socket.socket() as server:
        server.bind(("localhost", 0))
        port = server.getsockname()[1]
    both = [
        subprocess.Popen(
            [sys.executable, one_process.__file__, str(port), me, str(folder), *names],
            env={**os.environ, "JAX_PLATFORMS": "cpu"}, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for me in ("0", "1")
    ]  # fmt: skip
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    return folder


@pytest.mark.parametrize("row_shards", one_process.ROW_SHARDS)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=str(case), marks=[] if case in SAMPLE else pytest.mark.slow) for case in CASES]
)
def test_two_processes_of_four_devices_equal_one_device(case, row_shards, by_two, trained):
    refused = by_two / f"{case}-{row_shards}.refused"
    if refused.exists():
        assert "--devices" in refused.read_text() or "--row-shards" in refused.read_text()
        pytest.skip(refused.read_text())
    one, two = trained(case), by_two / f"{case}-{row_shards}"
    assert_same(case.load(one).params, case.load(two).params, rtol=1e-3, atol=1e-4)
    for a, b in zip(journal(one), journal(two), strict=True):
        assert a["valid"] == pytest.approx(b["valid"], rel=1e-4)
