"""Small files of the names that README.md and docs/ use, with the words and ids that they ask for."""

import gzip

import numpy as np

USERS, ITEMS, RATINGS = 200, 320, 8000
WORDS = (
    ["he", "she", "nobody", "the chairman", "the meeting"],
    ["has joined", "saw", "liked", "opened", "missed"],
    ["the rolling stones", "the meeting of the board", "one line of text", "tea in time", "bread on friday"],
)


TASKS = {
    "questions-words.txt": ": verbs\nhe saw she liked\ntea time bread friday\n: gram1-nouns\nboard stones text line\n",
    "wordsim353.csv": "Word 1,Word 2,Human (mean)\ntea,bread,8\nhe,she,9.5\nhe,tea,0.5\nboard,meeting,6\n",
    "questions.csv": "id,question,a),b)\n1,he _____ the meeting,saw,friday\n2,she missed _____ in time,tea,has\n",
    "answers.csv": "id,answer\n1,a\n2,a\n",
    "noise.vocab": "[laugh]\n",
    "refs.txt": "u1 he saw tea in time\nu2 nobody liked bread on friday\n",
}
NBEST = """utterance\trank\tacoustic\tlm\tnwords\thypothesis
u1\t1\t-10\t-5\t5\the saw tea in line
u1\t2\t-11\t-4\t5\the saw tea in time [laugh]
u2\t1\t-20\t-6\t4\tnobody bread on friday
"""


def write_files(folder):
    """Write texts, tasks, ratings, and what is asked about new users and items."""
    for name, text in TASKS.items():
        (folder / name).write_text(text)
    (folder / "nbest.tsv.gz").write_bytes(gzip.compress(NBEST.encode()))
    draws = np.random.default_rng(0)
    for name, lines in (("train", 60), ("valid", 20), ("test", 20), ("long", 60), ("mine", 20), ("mine-valid", 20)):
        sentences = [" ".join(str(draws.choice(part)) for part in WORDS) for _ in range(lines)]
        (folder / f"{name}.txt").write_text("".join(f"{sentence}\n" for sentence in sentences))
    pairs = draws.permutation(USERS * ITEMS)[:RATINGS].tolist()
    ratings = [(pair // ITEMS + 1, pair % ITEMS + 1, pair % 5 + 1) for pair in pairs]
    strangers = [(user, item, (user + item) % 5 + 1) for user in range(1001, 1010) for item in range(1, 16)]
    (folder / "parts").mkdir()
    for name, rows in {
        "ratings": ratings,
        "rented": ratings[::5],
        "known": [row for row in strangers if row[1] <= 10],
        "queried": [*(row for row in strangers if row[1] > 10), (196, 999, 4)],
        "new": [(user, 999, 4) for user in range(1, 9)],
        "parts/train": ratings[400:],
        "parts/valid": ratings[:400],
        "parts/test": ratings[:50],
    }.items():
        lines = [",".join(map(str, row if name != "rented" else row[:2])) for row in rows]
        header = "user,item" if name == "rented" else "user,item,stars"
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in [header, *lines]))
    titles = "".join(f"{item}::Été {item} (1995)::Drama\n" for item in range(1, ITEMS + 1))
    (folder / "movies.dat").write_text(titles, encoding="latin-1")
    (folder / "vocab.txt").write_text("space\norbit\nhockey\nteam\nchurch\n")
    for name, documents in (("train", 60), ("test", 10)):
        rows = [f"{i % 3 + 1} {i % 3 + 1}:{i % 5 + 1} {i % 3 + 2}:2\n" for i in range(documents)]
        (folder / f"{name}.feat").write_text("".join(rows))
