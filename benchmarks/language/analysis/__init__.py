"""Analyses of trained language models (Mnih 2010, §3.4.2, §3.4.3, §4.6.7, §6.1), each a function of any models."""
