"""The persistent compilation cache: where it lies, what turns it off; no state of its folder stops a command."""

import os
import subprocess
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import pytest

from jaxfit.cli import compilation_cache

# Enables the cache, compiles one program, and says what became of it.
PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
from jaxfit.cli import command, compilation_cache
from jaxfit.cli.parser import Parser
def build():
    parser = Parser("tool")
    parser.set_defaults(run=work)
    return parser
def work(args):
    assert "jax" not in sys.modules
    import jax, jax.numpy as jnp
    events = []
    jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
    found = jax.jit(lambda x: jnp.sin(x) @ x)(jnp.eye(4))
    print(jax.config.jax_compilation_cache_dir, "/jax/compilation_cache/cache_hits" in events, float(found.sum()))
sys.exit(command.run("tool", build, [], cached=True))
"""
NAMES = [name for name in os.environ if "COMPILATION_CACHE" in name or "PERSISTENT_CACHE" in name]


def start(home, **more):
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment |= {"XDG_CACHE_HOME": str(home), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", **more}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, text=True, **pipes)


def said(process):
    """Return the folder, whether a program was read from it, the program's result; lines on standard error."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split(), err.splitlines()


def call(home, **more):
    return said(start(home, **more))


def entries(home):
    return sorted(home.rglob("*-cache"))


def test_the_next_process_reads_what_one_has_compiled(tmp_path):
    (folder, hit, result), err = call(tmp_path)
    assert (hit, err) == ("False", [])
    assert os.path.dirname(folder) == str(tmp_path / "jax-mnih")
    assert jax.__version__ in os.path.basename(folder)
    assert os.stat(folder).st_mode & 0o077 == 0
    assert call(tmp_path) == ([folder, "True", result], [])
    for path in entries(tmp_path):  # torn by a kill
        path.write_bytes(path.read_bytes()[:-20])
    assert call(tmp_path) == ([folder, "False", result], [])


def test_several_processes_fill_it_at_once(tmp_path):
    both = [start(tmp_path) for _ in range(2)]
    (one, _), (other, _) = map(said, both)
    assert one[2] == other[2] == call(tmp_path)[0][2]


@pytest.mark.parametrize("word", ["off", "0"])
def test_it_can_be_turned_off(tmp_path, word):
    (folder, hit, _), err = call(tmp_path, JAX_MNIH_COMPILATION_CACHE=word)
    assert (folder, hit, err) == ("None", "False", [])
    own = tmp_path / "own"
    call(tmp_path, JAX_MNIH_COMPILATION_CACHE=word, JAX_COMPILATION_CACHE_DIR=str(own))
    assert entries(tmp_path) == []


def test_the_users_own_folder_is_taken(tmp_path):
    (folder, _, _), err = call(tmp_path / "cache", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"))
    assert (folder, err) == (str(tmp_path / "own"), [])
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("broken", ["file", "open to others", "link to nowhere"])
def test_a_folder_that_cannot_be_used_is_one_warning(tmp_path, broken):
    home = tmp_path / "home"
    if broken == "file":
        home.write_text("")
    elif broken == "open to others":
        folder, _ = call(home)
        os.chmod(folder[0], 0o777)
    else:
        home.mkdir()
        (home / "jax-mnih").symlink_to(tmp_path / "nowhere" / "at all")
    (folder, hit, _), err = call(home)
    assert (folder, hit) == ("None", "False")
    assert len(err) == 1
    assert err[0].startswith(f"tool: warning: compiled programs are not saved for the next run: {home}/jax-mnih: ")


def test_a_folder_that_may_not_be_written_is_one_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path)})
    monkeypatch.setattr(os, "access", lambda *_: False)  # a test may run as root, who may write everywhere
    with pytest.warns(UserWarning, match="it may not be written") as warned:
        compilation_cache.enable()
    assert len(warned) == 1
    assert os.environ == {"XDG_CACHE_HOME": str(tmp_path)}


def test_the_least_recently_used_entries_go(tmp_path, monkeypatch):
    place = tmp_path / "0.1-0.1-abc"
    place.mkdir()
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 250)
    now = time.time()
    for age, name in enumerate(["new-cache", "used-cache", "old-cache", "oldest-cache"]):
        (place / name).write_bytes(b"0" * 100)
        os.utime(place / name, (now if name.startswith("used") else now - 9000 * age, now - 9000 * age))
    (place / "torn-cache").touch()
    os.utime(place / "torn-cache", (now, now - 9000))
    compilation_cache._prune(tmp_path)
    assert {p.name for p in entries(tmp_path)} == {"new-cache", "used-cache"}
    (place / "other-cache").write_bytes(b"0" * 900)
    compilation_cache._prune(tmp_path)  # within the hour
    assert len(entries(tmp_path)) == 3


def test_nothing_is_read_while_compilation_is_measured():
    def compiled():
        hits = []
        jax.monitoring.register_event_listener(lambda name, **_: hits.append("hits" in name))
        jax.clear_caches()
        jax.jit(lambda x: jnp.tanh(x) @ jnp.cosh(x))(jnp.eye(3)).block_until_ready()
        return any(hits)

    before = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    try:
        compiled()
        if not compiled():
            pytest.skip("the tests' own cache is off")
        with compilation_cache.disabled():
            assert not compiled()
        assert compiled()
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before)


def test_enabling_it_raises_no_warning_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compilation_cache.enable()
        with pytest.raises(UserWarning, match="another"):
            warnings.warn("another", stacklevel=1)
