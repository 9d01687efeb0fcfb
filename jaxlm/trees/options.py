"""What the options of trees have in common, whichever model they are of: a rule by which a tree is built, or a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from jaxfit.errors import UserError, suggestion
from jaxlm.trees import build

RULES = get_args(build.Kind)
LEARNED = get_args(build.Rule)  # from features of words
OVERLAPPING = ("adaptive", "noisy-adaptive")  # those that may put a word on both sides


def is_file(tree: str, rules: Sequence[str] = RULES) -> bool:
    """Return whether a tree is read from a file, not built by a rule; raises UserError where there is neither."""
    if tree in rules:
        return False
    if not Path(tree).exists():
        raise UserError(f"there is no rule for trees or file {tree!r}", "--tree", suggestion(tree, rules))
    return True
