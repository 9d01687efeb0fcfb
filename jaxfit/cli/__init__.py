"""What both commands share: errors and exit codes, options from dataclasses, training options, JSON."""
