"""What measurements of speed share: limits of the device, compilation, the machine, comparisons of records."""
