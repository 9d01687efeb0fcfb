"""The `jaxcf` command."""
