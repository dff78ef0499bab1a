"""From observed operations to units, kinds and stages."""
