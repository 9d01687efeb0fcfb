"""Measurements of speed and memory: limits of the device, compilation, the machine; projections, comparisons."""
