"""Options that depend on one another."""

from dataclasses import dataclass

import pytest

from jaxfit.errors import UserError
from jaxfit.plan import require_effect
from jaxfit.recipe import option


@dataclass(frozen=True)
class Config:
    """A number of copies, and whether they are alike."""

    copies: int = option(1, "copies")
    alike: bool = option(False, "make them alike", only_with=("copies", range(2, 9)))


def test_an_option_without_effect_is_refused_but_not_its_default() -> None:
    """A program may give every option."""
    require_effect({"alike": True}, {"copies": 2}, Config)
    require_effect({"alike": False}, {"copies": 1}, Config)
    with pytest.raises(UserError, match=r"no effect with the copies 1 \(--alike\) - .* give --copies of 2 or more"):
        require_effect({"alike": True}, {}, Config)
