"""Small files of the names that README.md uses, with the words and ids that it asks for."""

import numpy as np

USERS, ITEMS, RATINGS = 200, 320, 8000
WORDS = (
    ["he", "she", "nobody", "the chairman", "the meeting"],
    ["has joined", "saw", "liked", "opened", "missed"],
    ["the rolling stones", "the meeting of the board", "one line of text", "tea in time", "bread on friday"],
)


def write_files(folder):
    """Write texts, ratings, and what is asked about new users and items."""
    draws = np.random.default_rng(0)
    for name, lines in (("train", 60), ("valid", 20), ("test", 20)):
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
        "asked": [*(row for row in strangers if row[1] > 10), (196, 999, 4)],
        "new": [(user, 999, 4) for user in range(1, 9)],
        "parts/train": ratings[400:],
        "parts/valid": ratings[:400],
    }.items():
        lines = [",".join(map(str, row if name != "rented" else row[:2])) for row in rows]
        header = "user,item" if name == "rented" else "user,item,stars"
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in [header, *lines]))
    titles = "".join(f"{item}::Été {item} (1995)::Drama\n" for item in range(1, ITEMS + 1))
    (folder / "movies.dat").write_text(titles, encoding="latin-1")
