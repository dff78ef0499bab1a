"""How figures are drawn: style, axes against depth, curves, what figures an exam has."""
