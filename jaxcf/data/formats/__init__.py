"""Formats of rating files: the layout of lines, typed files, the Netflix Prize, and what to say of bad lines."""
