"""Products, spectra and traces against the libraries that people use for them (`pip install vitscope[oracles]`)."""

import contextlib
import io

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.curvature.networks import batch, conv_net, small_vit
from vitscope.curvature import hessian_of, power, select_parameters, top_eigenvalues, trace_estimates

# Without the weights of layer norms: curvlinops takes their second derivative in forward mode, where torch 2.15 has it
# wrong (finite differences agree with us; see tests/curvature/test_product.py).
WITHOUT_NORMS = "patch_embed, *_token, *_embed, blocks.*.attn, blocks.*.mlp, head"


@pytest.mark.parametrize(("make", "params"), [(conv_net, None), (small_vit, WITHOUT_NORMS)])
def test_products_and_eigenvalues_of_curvlinops(make, params: str | None) -> None:
    curvlinops = pytest.importorskip("curvlinops")
    eigsh = pytest.importorskip("scipy.sparse.linalg").eigsh
    model, (images, targets) = make(), batch()
    labels = targets.argmax(1)
    chosen = list(select_parameters(model, params).values())
    with sdpa_kernel(SDPBackend.MATH):
        theirs = curvlinops.HessianLinearOperator(model, nn.CrossEntropyLoss(), chosen, [(images, labels)])
        vector = torch.randn(sum(p.numel() for p in chosen), dtype=torch.float64)
        with hessian_of(model, images, labels, params=params) as product:
            torch.testing.assert_close(product(vector), theirs @ vector, rtol=1e-8, atol=1e-10)
        expected = eigsh(theirs.to_scipy(), k=5, which="LM", return_eigenvectors=False)
    found = top_eigenvalues(model, images, labels, k=5, tol=1e-8, params=params)
    np.testing.assert_allclose(np.sort(found.values), np.sort(expected), rtol=1e-6)


@pytest.mark.parametrize("make", [conv_net, small_vit])
def test_power_mode_gives_pyhessians_answers(make) -> None:
    pyhessian = pytest.importorskip("pyhessian")
    model, (images, targets) = make().float(), batch(4)
    images, labels = images.float(), targets.argmax(1)
    with sdpa_kernel(SDPBackend.MATH), contextlib.redirect_stdout(io.StringIO()):
        theirs = pyhessian.hessian(model, nn.CrossEntropyLoss(), data=(images, labels), cuda=False)
        values, _ = theirs.eigenvalues(maxIter=100, tol=1e-3, top_n=2)
        traces = theirs.trace(maxIter=200, tol=1e-4)
    with hessian_of(model, images, labels) as product:
        ours = power(product, product.gradient(), 2)
        ours_trace = trace_estimates(product, product.gradient(), probes=200)
    exact = top_eigenvalues(model, images, labels, k=2, tol=1e-4).values
    # both stop when the value hardly moves; from another random start they stop elsewhere within that
    np.testing.assert_allclose(ours.values, values, rtol=0.03)
    np.testing.assert_allclose(ours.values, exact, rtol=0.03)
    error = 4 * (np.std(traces) / np.sqrt(len(traces)) + ours_trace.std() / np.sqrt(200))
    assert ours_trace.mean() == pytest.approx(np.mean(traces), abs=error)
