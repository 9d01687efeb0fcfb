"""Sums over the entries of segments, such as the words of each class or the codes of each word."""

import jax
import jax.numpy as jnp
from jax import Array


def segment_logsumexp(x: Array, segment: Array, num_segments: int, in_order: bool = True) -> Array:
    """Compute log sum exp of the entries of each segment, [num_segments]; every segment must have one.

    Args:
        x: [n].
        segment: the segment of each entry, int32 [n]; `num_segments` for entries of none.
        num_segments: number of segments.
        in_order: whether entries are in the order of their segments.
    """
    largest = jax.ops.segment_max(x, segment, num_segments, indices_are_sorted=in_order)
    largest = jax.lax.stop_gradient(largest)
    e = jnp.exp(x - largest.at[segment].get(mode="fill", fill_value=jnp.inf))
    return largest + jnp.log(jax.ops.segment_sum(e, segment, num_segments, indices_are_sorted=in_order))
