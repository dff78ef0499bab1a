"""One forward pass, observed operation by operation."""
