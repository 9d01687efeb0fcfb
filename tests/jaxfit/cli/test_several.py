"""What identifies the trainings of a command that makes several."""

import argparse

from jaxfit.cli import several


def test_what_files_and_folders_hold_identifies_trainings(tmp_path, monkeypatch):
    """A folder is known by its files, or by the manifest of a model; a MATLAB file also by one of its arrays.

    A folder that happens to have the name of the model, or of a choice, is none of them.
    """
    (tmp_path / "data" / "training_set").mkdir(parents=True)
    model = tmp_path / "model"
    model.mkdir()
    (model / "manifest.json").write_text("{}")
    inside, mat = tmp_path / "data" / "training_set" / "mv_1.txt", tmp_path / "ratings.mat"
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", choices=["model", "other"])
    out = tmp_path / "data" / "search"
    out.mkdir()
    args = argparse.Namespace(
        parser=parser, model="model", format="model", out=str(out),
        ratings=[str(tmp_path / "data"), f"{mat}:train_vec"], init=str(model), rate="*=0.1",
    )  # fmt: skip
    found = []
    for path in (
        inside,
        mat,
        model / "manifest.json",
        inside.with_name("mv_2.txt"),
        model / "log",
        out / "trials.json",
    ):
        path.write_text(str(len(found)))
        found.append(several.identity(args))
    assert set(found[-1]["files"]) == {*args.ratings, args.init}
    assert all(found[i] != found[i + 1] for i in range(3))
    assert found[3] == found[4], "the manifest stands for the folder"
    assert found[4] == found[5], "the command's own files"
