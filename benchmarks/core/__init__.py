"""What all benchmarks share: the model store, tables, records, reports, figures, dry runs."""
