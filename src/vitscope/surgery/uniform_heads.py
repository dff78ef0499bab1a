"""Uniform attention among the heads of an MSA (UA Table 1).

    a uniform head:   u = Wu (1/N Σ_j x_j + 0) ...
"""
