"""What operations are made of."""
