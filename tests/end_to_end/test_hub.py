"""A folder for a hub of models: its card as `huggingface_hub` reads it, and uploaded to a hub of one's own machine."""

import base64
import json
import threading
import warnings
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import jaxcf
import jaxcf.cli.main
import jaxlm
import jaxlm.cli.main
from jaxfit.run_dir.hub import without_directories

hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: pip install -e '.[test]'")

LINES = ["he saw it", "she saw tea", "he took bread and tea", "she took it and saw bread"] * 3
ROWS = [(f"u{u}", f"é{i}", (u * i) % 5 + 1) for u in range(6) for i in range(5)]


@pytest.fixture
def text(tmp_path):
    """Write a text in a folder whose name nobody else is to know."""
    (tmp_path / "secret").mkdir()
    path = tmp_path / "secret" / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def command(package, *argv):
    assert package.cli.main.main([str(argument) for argument in argv]) == 0


@contextmanager
def a_hub(received):
    """Serve a hub of models that takes one commit, and puts its files into `received`; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            if "/preupload/" in self.path:
                names = [file["path"] for file in json.loads(body)["files"]]
                answer = {"files": [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]}
            elif "/commit/" in self.path:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        received[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                url = f"http://{self.headers['Host']}/owner/name/commit/1"
                answer = {"commitUrl": url, "commitOid": "1", "success": True}
            else:  # the metadata of the card
                answer = {"errors": [], "warnings": []}
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_an_uploaded_folder_is_the_model_and_names_no_place(text, tmp_path, monkeypatch, capsys):
    command(jaxlm, "train", "class-ngram", "--train", text, "--test", text, "--num-classes", 3, "--out", tmp_path / "m")
    out, received = tmp_path / "for a hub", {}
    command(jaxlm, "export", tmp_path / "m", "--format", "hub", "--out", out)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with a_hub(received) as address, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        hub.HfApi(endpoint=address, token="none").upload_folder(repo_id="owner/name", folder_path=out)
    assert received.keys() == {path.name for path in out.iterdir()}
    assert not [name for name, content in received.items() if b"secret" in content or str(tmp_path).encode() in content]
    brought = tmp_path / "elsewhere" / "for a hub"
    brought.mkdir(parents=True)
    for name, content in received.items():
        (brought / name).write_bytes(content)
    model, again = jaxlm.load(tmp_path / "m"), jaxlm.load(brought)
    assert again.scores(LINES[:4]) == model.scores(LINES[:4])
    command(jaxlm, "export", brought, "--format", "hub", "--out", tmp_path / "again")
    (tmp_path / "again").rename(tmp_path / "elsewhere" / "again")
    scores = [(folder / "scores.json").read_text() for folder in (out, tmp_path / "elsewhere" / "again")]
    assert scores[0] == scores[1]
    monkeypatch.chdir(brought.parent)
    exec((brought / "README.md").read_text().partition("```python")[2].partition("```")[0], {})


def test_a_hub_reads_the_scores_of_a_card(text, tmp_path):
    options = ["--train", text, "--valid", text, "--test", text, "--order", 2]
    command(jaxlm, "train", "kn", *options, "--out", tmp_path / "kn")
    command(jaxlm, "export", tmp_path / "kn", "--format", "hub", "--out", tmp_path / "hub")
    for folder in (tmp_path / "kn", tmp_path / "hub"):
        card = hub.ModelCard.load(folder / "README.md").data
        found = card.to_dict()
        assert (found["library_name"], found["pipeline_tag"]) == ("jax-mnih", "text-generation")
        assert "license" not in found
        assert "kn" in found["tags"]
        of_valid, of_test = card.eval_results
        assert (of_test.dataset_split, of_test.dataset_name, of_test.metric_type) == ("test", "text.txt", "perplexity")
        assert of_test.metric_value == pytest.approx(jaxlm.load(folder).perplexity(text))
        assert of_valid.dataset_split == "validation"


def test_a_call_writes_a_card_with_what_its_training_recorded(tmp_path):
    model = jaxcf.train("wmf", ROWS, out=tmp_path / "wmf", num_features=2, epochs=1, progress=False)
    data = hub.ModelCard.load(tmp_path / "wmf" / "README.md").data
    (result,) = data.eval_results
    assert (data.pipeline_tag, result.metric_type, result.metric_name) == (None, "ndcg", "NDCG@10")
    assert result.metric_value == pytest.approx(model.info["validation NDCG@10"])
    command(jaxcf, "export", tmp_path / "wmf", "--format", "hub", "--out", tmp_path / "hub")
    again = jaxcf.load(tmp_path / "hub")
    assert again.recommend("u0", top=3) == model.recommend("u0", top=3)
    assert again.catalogue.items.tolist() == sorted({item for _, item, _ in ROWS})
    np.testing.assert_array_equal(again.known.ratings.user, model.known.ratings.user)


def test_names_of_files_are_cut_to_their_last_part():
    info = {
        "environment": {"XLA_FLAGS": "--xla_dump_to=/home/me/dump", "jax": "0.10"},
        "files": ["/home/me/tree.npz", r"C:\me\a.txt"],
        "config": {"cell": "and/or", "scale": [1.0, 5.0]},
    }
    assert without_directories(info) == {
        "environment": {"jax": "0.10"}, "files": ["tree.npz", "a.txt"], "config": info["config"]
    }  # fmt: skip
    assert without_directories({"seed": 1, "name": "ml-1m"}) == {"seed": 1, "name": "ml-1m"}


def test_what_is_no_folder_for_a_hub_is_refused(text, tmp_path, capsys):
    command(jaxlm, "train", "unigram", "--train", text, "--out", tmp_path / "m")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    argv = ["export", str(tmp_path / "m"), "--format", "hub", "--out"]
    assert jaxlm.cli.main.main([*argv, str(tmp_path / "taken")]) == 2
    assert "the folder has files" in capsys.readouterr().err
    assert (tmp_path / "taken" / "mine.txt").read_text() == "mine"
    command(jaxlm, "export", tmp_path / "m", "--format", "arpa", "--out", tmp_path / "lm.arpa")
    assert (
        jaxlm.cli.main.main(["export", str(tmp_path / "lm.arpa"), "--format", "hub", "--out", str(tmp_path / "x")]) == 2
    )
    assert "the hub format needs a model's folder" in capsys.readouterr().err
    (tmp_path / "part").mkdir()
    command(jaxlm, "export", tmp_path / "m", "--format", "hub", "--out", tmp_path / "part")
    damaged = tmp_path / "part" / "ngram.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert jaxlm.cli.main.main(["info", str(tmp_path / "part")]) == 2
    assert "damaged: ngram.safetensors is missing or changed" in capsys.readouterr().err
