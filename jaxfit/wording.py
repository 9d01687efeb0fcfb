"""Words of messages that depend on numbers."""


def quantity(number: int, noun: str) -> str:
    """Return a number with its noun: "1 user", "2,000 users".

    Args:
        number: how many.
        noun: in the singular; one whose plural adds an s.
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
