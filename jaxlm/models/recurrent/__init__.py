"""Recurrent language models: one network, and models that use it with three kinds of cells."""
