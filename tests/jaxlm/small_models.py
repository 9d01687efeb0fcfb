"""Helpers: a small random text, and options of models that train on it within seconds."""

import random

SMALL = ["--num-features", "6", "--context-size", "2", "--batch-size", "100", "--epochs", "3"]


def write_text(path, seed, lines=120):
    rng = random.Random(seed)
    subjects, verbs, objects = (
        ["he", "she", "they", "nobody"],
        ["saw", "took", "liked", "broke"],
        ["it", "tea", "bread", "time"],
    )
    rare = [f"word{i}" for i in range(60)]
    text = []
    for _ in range(lines):
        line = ["The", rng.choice(subjects), rng.choice(verbs), rng.choice(objects)]
        text.append(" ".join([*line, rng.choice(rare)] if rng.random() < 0.3 else line))
    path.write_text("\n".join(text) + "\n")
    return str(path)
