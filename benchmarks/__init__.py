"""Tables and figures of the thesis, speed, data sets: `python -m benchmarks`."""
