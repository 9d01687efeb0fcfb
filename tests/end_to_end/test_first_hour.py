"""The first hour of a user with awkward files, as a test; `python tests/end_to_end/first_hour.py` shows it."""

import first_hour


def test_a_user_meets_no_wall(tmp_path):
    first_hour.main(tmp_path)
