"""Words of messages that depend on numbers."""

import pytest

from jaxfit.wording import quantity


@pytest.mark.parametrize(("number", "text"), [(0, "0 users"), (1, "1 user"), (2, "2 users"), (12345, "12,345 users")])
def test_a_noun_is_in_the_singular_or_plural(number, text):
    assert quantity(number, "user") == text
