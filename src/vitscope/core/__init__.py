"""What everything stands on: errors, processes, interrupts, memory, statistics, how a model is spoken to."""

VERSION = "0.9.0"  # of vitscope; pyproject.toml reads it here
