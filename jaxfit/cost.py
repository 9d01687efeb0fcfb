"""What training takes at least for an event (a word, a rating), by a formula that a model's record gives."""

from typing import NamedTuple

PRODUCT = 2 * 3  # operations for each weight of a product: a multiplication and an addition; forward, in both gradients


class Cost(NamedTuple):
    """What an event takes at least.

    Operations are multiplications and additions of products of weights with what they are applied to. Softmax, other
    functions of single numbers, random numbers, and updates of whole arrays are left out.

    Attributes:
        operations: of an event.
        read: float32 numbers of table rows that an event reads, each once, whatever a cache would save.
        added: float32 numbers of table rows that are added to, likewise.
        formula: of the operations and of the bytes, 4 (read + added), in words.
    """

    operations: float
    read: float
    added: float
    formula: str

    @property
    def bytes(self) -> float:
        """Bytes of rows that are read or written."""
        return 4 * (self.read + self.added)
