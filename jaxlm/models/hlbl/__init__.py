"""The hierarchical log-bilinear model (Mnih 2010, §4.3)."""
