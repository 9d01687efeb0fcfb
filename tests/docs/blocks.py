"""Reads the code blocks of a page."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^(#+ [^\n]*)$|^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks_of(page, language):
    """Return the blocks of a language, each with the title of its section."""
    title, found = "", []
    for heading, kind, code in FENCED.findall((ROOT / page).read_text(encoding="utf-8")):
        if heading:
            title = heading.lstrip("# ")
        elif kind == language:
            found.append((title, code))
    return found
