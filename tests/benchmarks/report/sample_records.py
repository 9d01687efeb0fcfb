"""Records of each sort, small, of which the page of all results is made in tests."""

import json
from dataclasses import replace
from pathlib import Path

from PIL import Image

from benchmarks import registry
from benchmarks.core.statistics import quartiles
from benchmarks.core.table import Row, Table
from benchmarks.measurement import speed_record
from benchmarks.speed import page as speed_page

WHERE = {
    "commit": "0123456789abcdef0123", "dirty": True, "python": "3.11.7", "jax": "0.10.2", "jaxlib": "0.10.1",
    "device": "gpu: H100", "devices": 2, "cores": 16, "matmul_precision": "highest", "XLA_FLAGS": "--flag",
}  # fmt: skip
UNSAFE = '<script>alert("1 & 2")</script>'


def of_rows(name: str, *trees: str) -> Table:
    """Return a table of the thesis, of an HLBL with each of these trees."""
    made = [Row(("HLBL", tree), (), {}, lambda store, specs, part: {}) for tree in trees]
    return replace(registry.TABLES[name], rows=lambda scale, seeds: made)


TABLES = {name: of_rows(name, "T1", "T10", UNSAFE) for name in ("table-4.4", "table-4.5", "figure-5.4")}


def model(label: str, seed: int, **more) -> dict:
    return {
        "label": f"{label}-seed{seed}", "source": "abcd1234", "commit": "fedcba9876543210", "dirty": False,
        "config": {"num_features": 100}, "recipe": {"optimizer": "sgd", "rate": {"*": 0.1}},
        "validation_perplexity": [130.0, 120.0 + seed, 125.0], "seconds": {"all": 60.0 * seed}, "warnings": [],
        "environment": {}, **more,
    }  # fmt: skip


def verdict(claim: str, answer: str, **more) -> dict:
    comparisons = [
        {"label": "T1 and T2", "holds": answer, "value": -3.0, "interval": [-4.5, -1.5], "claimed": [None, 0.0]},
        {"label": "T2 and T3", "holds": "yes", "value": 1.25, "interval": [1.0, 1.5], "claimed": [-0.5, 2.5]},
    ]
    for one in comparisons:
        one["percent"] = "%" in claim
    test = {"answer": answer, "seeds": 2, "comparisons": comparisons}
    validation = {"answer": "yes", "seeds": 2, "comparisons": comparisons[:1]}
    return {"claim": claim, "section": "4.6.3", "answer": answer, "test": test, "validation": validation, **more}


def record(**more) -> dict:
    rows = [
        ("T1", 131.26, [128.0, 134.5], 151.2),
        ("T10", 99.5, [97.0, 102.0], 112.1),
        (UNSAFE, 1002.0, [990.0, 1014.0], None),
    ]
    return {
        "table": "table-4.4", "section": "4.6.3", "title": "Trees", "command": "python -m benchmarks run table-4.4",
        "data": {"name": "ptb", "sha256": "5a" * 32, "note": "a treebank", "words": 10000, "events": {"test": 82430}},
        "scale": "cpu", "recipe": "tuned", "seeds": None, "heads": ["model", "tree"], "note": "A `note`.",
        "columns": [{"name": "perplexity", "title": "perplexity", "digits": 1}], "complete": True,
        "rows": [
            {
                "label": ["HLBL", tree], "thesis": {} if thesis is None else {"perplexity": thesis}, "seeds": [1, 2],
                "cells": {"perplexity": {"mean": mean, "sd": 1.0, "interval": interval, "values": [mean, mean]}},
                "seconds": 1.0, "models": ["one", "two"], "environment": WHERE, "date": "2026-01-31",
            }
            for tree, mean, interval, thesis in rows
        ],
        "models": {"one": model("hlbl", 1), "two": model("hlbl", 2)},
        "verdicts": [verdict("T1 is better", "no"), verdict("T1 is better!", "unresolved"), verdict("5 %", "yes")],
        **more,
    }  # fmt: skip


def write(records: Path) -> None:
    """Write records: complete with picture, of another recipe and not complete, from before verdicts, and of speed."""
    records.mkdir()
    early = record(recipe="thesis", complete=False, verdicts=None)
    old = record(table="table-4.5", scale="smoke", data=record()["data"] | {"name": "prose"})
    for row in old["rows"]:
        del row["date"]
    old["rows"][-1]["environment"] = WHERE | {"dirty": False}  # later: its models were trained for the first row
    for each in old["models"].values():
        each["warnings"] = ["no progress"]
        del each["commit"], each["dirty"], each["source"]
        each["environment"] = {"commit": "aaaabbbbccccdddd"}
    del old["verdicts"]
    for name, content in {"table-4.4.ptb.cpu": record(), "table-4.4.ptb.cpu.thesis": early}.items():
        (records / f"{name}.json").write_text(json.dumps(content))
        Image.new("RGB", (900, 20), "red").save(records / f"{name}.png")
    (records / "table-4.5.prose.smoke.json").write_text(json.dumps(old))
    rows = {"ours": {"words/s": quartiles([1.0, 2.0, 3.0]), "found": "late"}, UNSAFE: {"words/s": quartiles([1e999])}}
    figures = {"setting": {"words": 7000}, "tables": {"training": rows}, "curves": {"by size": {}}}
    where = WHERE | {"cpu": "a processor", "threads": 2, "memory": 8e9, "os": "Linux", "versions": {"jax": "0.10"}}
    for name, one in {"lbl": figures, "nplm": {**figures, "curves": {}}}.items():
        speed = {"version": speed_record.VERSION, "figures": {name: one}, "environment": {name: where}}
        (records / f"speed.{name}.json").write_text(json.dumps(speed).replace("Infinity", "null"))
    Image.new("P", (30, 20), 1).save(records / speed_page.picture("lbl", "by size"))
