"""Standard workloads: models of exact sizes on drawn data, to measure devices with and to compile for them."""
