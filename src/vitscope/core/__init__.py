"""What everything stands on: errors, processes, interrupts, memory, statistics, how a model is spoken to."""
