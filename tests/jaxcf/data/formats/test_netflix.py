"""Files of the Netflix Prize: combined files, one file per movie, probe and qualifying pairs."""

import gzip

import pytest

from jaxcf.data.formats import netflix
from jaxcf.data.reading import Reading, read_dataset, read_pairs
from jaxfit.errors import UserError
from rating_files import read, rows, write_file

COMBINED = {
    "1": "7,4,1970-01-02\n3,2,2005-09-06\n",
    "2": "7,5,2004-02-29\n",
    "30": "",
    "4": "12,1,1999-12-31\n",
}
NETFLIX = [(7, 1, 4, 86400), (3, 1, 2, 1125964800), (7, 2, 5, 1078012800), (12, 4, 1, 946598400)]


def combined(sections):
    return "".join(f"{movie}:\n{body}" for movie, body in sections.items())


@pytest.mark.parametrize("batch", [1, 1 << 20])
def test_combined_and_separate_files_hold_the_same_ratings(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(netflix, "BATCH", batch)
    one = write_file(tmp_path, "combined_data_1.txt", combined(COMBINED))
    table = read(one)
    assert rows(table) == NETFLIX
    assert table.catalogue.items.tolist() == [1, 2, 4]  # without the movie that has no ratings
    for folder, files in {
        "several": {
            "combined_data_1.txt": combined({"1": COMBINED["1"]}) + "\n",
            "combined_data_2.txt": combined({k: v for k, v in COMBINED.items() if k != "1"}),
        },
        "movies": {f"mv_{int(k):07}.txt": combined({k: v}).rstrip() + "\n" for k, v in COMBINED.items()},
        "above/training_set": {f"mv_{int(k):07}.txt": combined({k: v}) for k, v in COMBINED.items()},
    }.items():
        (tmp_path / folder).mkdir(parents=True)
        for name, body in files.items():
            write_file(tmp_path / folder, name, body)
        assert rows(read(tmp_path / folder.split("/")[0])) == NETFLIX
    spaced = write_file(tmp_path, "spaced.txt", "\ufeff" + combined(COMBINED).replace("\n", "\n\n").replace(":", ": "))
    assert rows(read(spaced, Reading(format="netflix"))) == NETFLIX
    gzipped = write_file(tmp_path, "c.txt.gz", gzip.compress(combined(COMBINED).replace("\n", "\r\n").encode()))
    assert rows(read(gzipped)) == NETFLIX


def test_probe_pairs_are_split_off_the_training_ratings(tmp_path):
    train = write_file(tmp_path, "combined_data_1.txt", combined(COMBINED))
    probe = write_file(tmp_path, "probe.txt", "1:\n3\n2:\n7\n")
    pairs = read_pairs(probe)
    assert pairs.users[pairs.pairs.user].tolist() == [3, 7]
    assert pairs.items[pairs.pairs.item].tolist() == [1, 2]
    qualifying = read_pairs(write_file(tmp_path, "qualifying.txt", "1:\n12,2005-01-01\n9:\n8,2005-01-02\n"))
    assert (qualifying.users.tolist(), qualifying.items.tolist()) == ([8, 12], [1, 9])
    data, rated, notes = read_dataset(train, probe, rated=tmp_path / "qualifying.txt")
    assert data.catalogue.users.tolist() == [3, 7, 8, 12]
    assert data.catalogue.items.tolist() == [1, 2, 4, 9]
    assert data.train.stars.tolist() == [4, 1]
    assert data.valid.stars.tolist() == [2, 5]
    assert (rated.user.tolist(), rated.item.tolist()) == ([3, 2], [0, 3])
    assert data.test is None
    assert [note.split(": ", 1)[1] for note in notes] == [
        "the layout of the Netflix Prize; 4 ratings of 3 items by 3 users, 1 to 5 in steps of 1 (as found)",
        "the layout of the Netflix Prize; 2 pairs of 2 users and 2 items",
        "the layout of the Netflix Prize; 2 pairs of 2 users and 2 items",
    ]
    write_file(tmp_path, "probe.txt", "1:\n3\n12\n9:\n7\n")
    with pytest.raises(UserError, match="2 pairs of the valid file have no rating in the training file"):
        read_dataset(train, probe)
