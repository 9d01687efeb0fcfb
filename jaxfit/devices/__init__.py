"""Devices: sharding over one or many, of one process or several; the precision of matrix products."""
