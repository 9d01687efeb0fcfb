"""Messages: one line of bounded length, whose parts can still be read."""

import pytest

from jaxfit.errors import MAX_MESSAGE, UserError, shortened


@pytest.mark.parametrize("length", [1, 2, 9, 10, 11])
def test_shortened_text_keeps_its_beginning_and_its_end(length):
    text = "0123456789"
    found = shortened(text, length)
    assert len(found) == min(length, len(text))
    if length < len(text):
        before, _, after = found.partition("…")
        assert text.startswith(before)
        assert text.endswith(after)


@pytest.mark.parametrize("long", [("what",), ("where",), ("do",), ("what", "where"), ("what", "where", "do")])
def test_long_parts_of_a_message_are_shortened_and_short_ones_kept(long):
    parts = {
        name: (f"<{name} " + "x" * 10**6 + f" {name}>" if name in long else f"a short {name}")
        for name in ("what", "where", "do")
    }
    text = str(UserError(**parts))
    assert len(text) <= MAX_MESSAGE + len(" () - ")
    assert len(text) >= MAX_MESSAGE - 3
    for name in parts:
        assert f"<{name} x" in text and f"x {name}>" in text if name in long else parts[name] in text


def test_messages_of_usual_length_are_whole():
    error = UserError("w" * 150, "p" * 100, "d" * 100)
    assert str(error) == f"{'w' * 150} ({'p' * 100}) - {'d' * 100}"
