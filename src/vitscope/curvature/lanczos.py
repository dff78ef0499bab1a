"""The eigenvalues of largest magnitude of a symmetric matrix that is known by its products only.

Lanczos' method with full reorthogonalisation: after m products, H Q = Q T + b q e_m' with an orthonormal basis Q (m
vectors). With T s = θ s, the pair (θ, y = Q s) has the residual ||H y - θ y|| = b |s_m|, known without a product.
When the basis is full it is shrunk to its most useful Ritz vectors and grows on from there (a thick restart: Wu and
Simon 2000).

That identity holds as far as rounding lets it. One more product, of a random ± combination of the wanted vectors,
measures by how much it fails, and this error is part of every residual that is reported.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vitscope.core.arguments import Count, NotNegative, checked
from vitscope.core.errors import VitscopeError
from vitscope.curvature.dots import Basis, dot, norm

Operator = Callable[[Tensor], Tensor]
OnStep = Callable[[int], None]
MAX_PRODUCTS = 300
BASIS_BYTES = 4 << 30


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """Eigenvalues of largest magnitude, in falling order of it, with their signs."""

    values: np.ndarray  # (k,)
    residuals: np.ndarray  # (k,) ||H v - λ v|| / |λ|
    converged: np.ndarray  # (k,) whether the residual is within the tolerance
    products: int  # how many products with H it took
    vectors: Tensor | None = None  # (k, size) of length one, if asked for


@checked
def lanczos(
    product: Operator,
    start: Tensor,
    k: Count,
    tol: NotNegative = 1e-3,
    max_products: Count = MAX_PRODUCTS,
    basis_size: Count | None = None,
    vectors: bool = False,
    on_step: OnStep | None = None,
) -> Eigenvalues:
    """The `k` eigenvalues of largest magnitude.

    Args:
        product: v -> H v.
        start: The first vector, of any length but 0; a random one, or a guess at a sum of the eigenvectors.
        k: How many.
        tol: Wanted residual ||H v - λ v|| / |λ| of each. Eigenvalues closer together than that may be found as one.
        max_products: Stop after so many even if not converged.
        basis_size: Vectors kept at once; default: what fits into 4 GiB, at least 2 k + 10 and at most 100.
        vectors: Whether to return eigenvectors.
        on_step: Called with the number of products after each.
    """
    size = len(start)
    check_counts(k, size, max_products)
    room = min(size, max(basis_size or _usual_size(start, k), k + 2))
    with Basis(room + 1, start) as basis:
        search = _Search(product, basis, room, k, tol)
        while search.products < max_products - 1 and not search.finished:
            search.step()
            if on_step is not None:
                on_step(search.products)
        return search.result(vectors)


def _usual_size(vector: Tensor, k: int) -> int:
    return min(100, max(2 * k + 10, BASIS_BYTES // (vector.element_size() * len(vector))))


def krylov_matrix(product: Operator, start: Tensor, steps: int, on_step: OnStep | None = None) -> np.ndarray:
    """(m, m): H in the orthonormal basis that `steps` products make of `start`, its first vector; m <= steps."""
    steps = min(steps, len(start))
    with Basis(steps + 1, start) as basis:
        search = _Search(product, basis, steps, 1, 0.0)
        for _ in range(steps):
            search.step()
            if on_step is not None:
                on_step(search.products)
        return search.matrix()


class _Search:
    """The state of one search: the basis, H in it, and how far the wanted pairs have come."""

    def __init__(self, product: Operator, basis: Basis, room: int, k: int, tol: float) -> None:
        self._product = product
        self._basis = basis
        self._room = room
        self._k = k
        self._tol = tol
        # T, and in its last row and column the coupling to the next vector
        self._projected = np.zeros((room + 1, room + 1))
        self._filled = 0  # vectors that H has been applied to
        self._island = 0  # T from here on is not coupled to what was before
        self._closed = 0  # size of the invariant subspace that the last vectors were found to fill
        self._rounding = 0.0
        self._generator = torch.Generator().manual_seed(0)
        self.products = 0
        self.finished = False

    def step(self) -> None:
        """Multiply the newest vector, make the next one orthogonal to all, look at what is found."""
        if self._filled == self._room:
            self._shrink()
        j, T = self._filled, self._projected
        new = self._product(self._basis[j])
        self.products += 1
        for i in np.flatnonzero(T[:j, j]).tolist():
            new.sub_(self._basis[i], alpha=float(T[i, j]))
        own = dot(self._basis[j], new)
        if not math.isfinite(own):
            raise VitscopeError("a product with the Hessian is not finite; check the weights and the images")
        new.sub_(self._basis[j], alpha=own)
        T[j, j] = own + self._basis.orthogonalise(new, j + 1)[j]
        self._filled = j + 1
        self._extend(new)
        self.finished = self._filled == self._basis.length or self._is_converged()

    def _extend(self, new: Tensor) -> None:
        """Append the direction that is left, or, if nothing is, a random one that H does not couple to the others."""
        j, T = self._filled, self._projected
        left = norm(new)
        size = max(np.abs(T[:j, :j]).max(), left)
        self._rounding = max(self._rounding, 100 * torch.finfo(new.dtype).eps * size)
        T[j, :j] = T[:j, j] = 0.0
        if left > self._rounding:
            T[j - 1, j] = T[j, j - 1] = left
            self._basis.append(new.div_(left), j)
        elif j < len(new):
            self._closed, self._island = j - self._island, j
            fresh = torch.randn(len(new), generator=self._generator, dtype=new.dtype).to(new.device)
            for _ in range(2):  # it is far from orthogonal: one pass would leave its rounding errors
                self._basis.orthogonalise(fresh, j)
            self._basis.append(fresh.div_(norm(fresh)), j)

    def _is_converged(self) -> bool:
        theta, _, bounds = self._ritz()
        known = bounds <= np.maximum(self._tol * np.abs(theta), self._rounding)
        if len(theta) < self._k or not known[: self._k].all():
            return False
        if self._closed == 0:
            return True
        # The space closed early: eigenvalues have several copies, and each closed part holds one of each. Go on until
        # a part has none above the wanted, or does not close like the one before.
        just_closed = self._island == self._filled
        part = slice(self._island - self._closed if just_closed else self._island, self._filled)
        values, turn = np.linalg.eigh(self._projected[part, part])
        leader = int(np.argmax(np.abs(values)))
        reach = abs(self._projected[self._filled, self._filled - 1] * turn[-1, leader])
        is_known = reach <= max(self._tol * abs(values[leader]), self._rounding)
        nothing_new = is_known and abs(values[leader]) <= abs(theta[self._k - 1]) + self._rounding
        return nothing_new or (not just_closed and len(values) > self._closed)

    def _ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values by falling magnitude, their vectors in the basis (m, m), and their residual norms."""
        m = self._filled
        theta, s = np.linalg.eigh(self._projected[:m, :m])
        order = np.argsort(-np.abs(theta), kind="stable")
        theta, s = theta[order], s[:, order]
        return theta, s, np.abs(self._projected[m, :m] @ s)

    def _shrink(self) -> None:
        """Keep the Ritz vectors of largest magnitude, and go on from them."""
        m, T = self._filled, self._projected
        theta, s, _ = self._ritz()
        keep = min(self._k + (m - self._k) // 3, m - 1)
        coupling = T[m, :m] @ s[:, :keep]
        self._basis.rotate(s[:, :keep], m)
        T[:] = 0.0
        T[:keep, :keep] = np.diag(theta[:keep])
        T[:keep, keep] = T[keep, :keep] = coupling
        self._filled = keep
        self._island, self._closed = 0, 0

    def matrix(self) -> np.ndarray:
        """T."""
        return self._projected[: self._filled, : self._filled].copy()

    def result(self, vectors: bool) -> Eigenvalues:
        """The wanted pairs, with the error of the whole procedure measured by one more product."""
        theta, s, bounds = self._ritz()
        theta, s, bounds = theta[: self._k], s[:, : self._k], bounds[: self._k]
        signs = np.random.default_rng(0).choice([-1.0, 1.0], len(theta))
        found = self._product(self._basis.combine(s @ signs))
        found -= self._basis.combine(s @ (signs * theta))
        if self._filled < self._basis.length:
            coupling = self._projected[self._filled, : self._filled]
            found.sub_(self._basis[self._filled], alpha=float(coupling @ s @ signs))
        error = norm(found)
        residuals = np.hypot(bounds, error) / np.where(theta == 0.0, 1.0, np.abs(theta))
        made = torch.stack([self._basis.combine(column) for column in s.T.copy()]) if vectors else None
        return Eigenvalues(theta, residuals, residuals <= self._tol, self.products + 1, made)


def check_counts(k: int, size: int, max_products: int) -> None:
    """Refuse numbers that cannot be met, with the numbers that can."""
    if not 1 <= k <= size:
        raise VitscopeError(f"k is {k} for {size} parameters; expected 1 to {size}")
    if max_products < k + 2:
        raise VitscopeError(f"max_products is {max_products} for {k} eigenvalues; expected at least {k + 2}")
