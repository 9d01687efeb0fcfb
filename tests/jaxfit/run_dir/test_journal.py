"""The journal: what is read is what was written, and a line of anything else is named."""

import pytest

from jaxfit.run_dir.journal import Journal


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    journal = Journal(tmp_path)
    journal.write(epoch=0, valid=5.5)
    with journal.path.open("a") as file:
        file.write('{"epoch": 1, "va')
    assert journal.lines() == [{"epoch": 0, "valid": 5.5}]


@pytest.mark.parametrize("line", [{}, {"epoch": 1}, {"epoch": "1", "valid": 1.0}, {"epoch": 1, "valid": None}])
def test_epochs_are_the_lines_that_say_what_an_epoch_did(tmp_path, line):
    journal = Journal(tmp_path)
    journal.write(**line)
    journal.write(epoch=0, valid=5.5)
    assert journal.epochs() == [{"epoch": 0, "valid": 5.5}]


@pytest.mark.parametrize("line", [b"{", b"[1]", b"3", b"\xff", b"", b"[" * 100_000])
def test_a_line_that_is_no_record_is_left_out_with_a_warning(tmp_path, line):
    journal = Journal(tmp_path)
    journal.write(epoch=0)
    with journal.path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.warns(UserWarning, match=r"journal.jsonl: line 2 cannot be read: left out"):
        assert journal.lines() == [{"epoch": 0}]


def test_a_line_cut_short_is_removed_before_others_follow(tmp_path):
    journal = Journal(tmp_path)
    journal.write(epoch=0, valid=5.5)
    size = journal.size()
    journal.path.write_bytes(journal.path.read_bytes()[:-4])
    journal.cut(size)
    journal.write(epoch=1, valid=5.0)
    assert journal.lines() == [{"epoch": 1, "valid": 5.0}]
