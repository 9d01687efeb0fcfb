"""The data sets that benchmarks know, and fetching them."""
