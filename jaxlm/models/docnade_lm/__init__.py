"""The DocNADE language model (Lauly et al. 2017, §4)."""
