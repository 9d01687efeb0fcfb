"""Words of messages that depend on numbers."""


def quantity(number: int, noun: str) -> str:
    """Return a number with its noun, which is given in the singular: "1 user", "2,000 users"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
