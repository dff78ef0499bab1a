"""What everything stands on: errors, processes, interrupts, memory, statistics, how a model is spoken to."""

VERSION = "0.1.0"  # of vitscope; pyproject.toml reads it here
