"""What all benchmarks share: the model store, tables, records, verdicts, figures."""
