"""The `jaxlm` command."""
