"""Whether JAX makes float32: with `jax_enable_x64` it makes float64 of numbers that have no type."""

from jaxfit.errors import UserError


def require_float32(model: str) -> None:
    """Raise a UserError where JAX makes float64, which would not fit the float32 of a model's programs.

    model: its name, for the message.
    """
    import jax  # here: n-gram models do without it

    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        what = f"{model} is of float32, and JAX is set to make float64 (jax_enable_x64)"
        raise UserError(what, do="train it within `with jax.enable_x64(False):`")
