"""What a function for another thread computes under."""

from concurrent.futures import ThreadPoolExecutor

import jax

from jaxfit.devices.platform import parts, tracing_over
from jaxfit.devices.precision import SETTINGS, for_thread, full_float32


def settings():
    return [getattr(jax.config, name) for name in SETTINGS], parts()


def test_a_function_for_another_thread_has_the_settings_of_the_one_that_made_it():
    with ThreadPoolExecutor(1) as threads:
        with full_float32(), tracing_over(3):
            expected, function = settings(), for_thread(settings)
        assert threads.submit(function).result() == expected
        assert threads.submit(settings).result() != expected
