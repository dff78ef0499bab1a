"""How models are examined: what an exam is, the passes over the data, what is kept, diagnosis and evaluation."""
