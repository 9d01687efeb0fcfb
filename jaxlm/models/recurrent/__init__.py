"""Recurrent language models: one network, and the models that it makes of three cells."""
