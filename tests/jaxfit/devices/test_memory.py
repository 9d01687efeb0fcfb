"""The memory of a training is estimated before any of it is taken."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from jaxfit.devices import memory
from jaxfit.errors import UserError

SHAPES = {"R": jax.ShapeDtypeStruct((1000, 250), jnp.float32)}  # 1 MB
NEEDED = {None: 3, "sgd": 3, "rowwise-adagrad": 3, "adagrad": 4, "adam": 5}  # MB in all


@pytest.mark.parametrize("optimizer", NEEDED)
def test_parameters_with_the_optimizers_state_must_fit(monkeypatch, optimizer):
    needed = NEEDED[optimizer] * 10**6
    monkeypatch.setattr(memory, "available", lambda: needed)
    memory.require(SHAPES, optimizer, "--num-features")
    monkeypatch.setattr(memory, "available", lambda: 2 * 10**6)
    what = f"training needs {NEEDED[optimizer]} MB for the parameters and their copies, and this machine has 2 MB"
    with pytest.raises(UserError, match=rf"^{what} \(--num-features\) - make the model smaller$"):
        memory.require(SHAPES, optimizer, "--num-features")


@pytest.mark.parametrize("optimizer", NEEDED)
def test_of_tables_split_over_accelerators_a_device_must_hold_its_part(monkeypatch, optimizer):
    shards, needed = 4, (NEEDED[optimizer] - 1) * 10**6 // 4
    monkeypatch.setattr(memory, "available", lambda: needed)
    with pytest.raises(UserError, match="and this machine has"):
        memory.require(SHAPES, optimizer, "--num-features", shards)  # the devices of a CPU share its memory
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(platform="gpu")])
    memory.require(SHAPES, optimizer, "--num-features", shards)
    with pytest.raises(UserError, match=r"and this machine has .* - make the model smaller$"):
        memory.require(SHAPES, optimizer, "--num-features")
    monkeypatch.setattr(memory, "available", lambda: needed - 1)
    with pytest.raises(UserError, match=r"and each of 4 devices has .* smaller, or give more --row-shards$"):
        memory.require(SHAPES, optimizer, "--num-features", shards)


def test_where_the_memory_is_not_known_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    memory.require({"R": jax.ShapeDtypeStruct((2**31 - 1, 2**31 - 1), jnp.float32)}, None, "")


def test_this_machine_has_memory():
    assert memory.available() > 1 << 28


GROUPS = {
    "version 2, the own group": ("0::/job/step", {"job/step/memory.max": 5, "job/memory.max": "max"}, 5),
    "version 2, a group around it": ("0::/job/step", {"job/step/memory.max": "max", "job/memory.max": 6}, 6),
    "version 2, in a container": ("0::/", {"memory.max": 7}, 7),
    "version 2, of a name seen from outside": ("0::/../../docker/12", {"memory.max": 7}, 7),
    "version 1": (
        "4:memory:/job\n1:cpu,cpuacct:/\n0::/",
        {"memory/job/memory.limit_in_bytes": 8, "memory/memory.limit_in_bytes": 2**63 - 4096}, 8,
    ),
    "version 1, in a container": ("4:memory:/docker/12", {"memory/memory.limit_in_bytes": 9}, 9),
    "no list of groups": (None, {"memory.max": 10}, 10),
    "no limit": ("0::/job", {"job/memory.max": "max"}, None),
    "no groups": (None, {}, None),
}  # fmt: skip


@pytest.mark.parametrize("case", GROUPS)
def test_limits_of_containers_and_batch_systems_count(tmp_path, monkeypatch, case):
    own, limits, expected = GROUPS[case]
    physical = memory.available()
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, limit in limits.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    assert memory.available() == (expected or physical)


def test_the_address_space_of_the_process_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, resource.RLIM_INFINITY))
    assert memory.available() == 1 << 20


def test_bytes_are_written_as_people_read_them():
    shown = [memory.show(number) for number in (0, 999, 999_499, 999_999, 24e9, 4.1e12, 1e20, 1e22)]
    assert shown == ["0 bytes", "999 bytes", "999 kB", "1 MB", "24 GB", "4.1 TB", "100 EB", "10,000 EB"]
