from vitscope.engine.loss.curvature_passes import ProductBar


def test_the_estimate_follows_what_batches_took() -> None:
    with ProductBar("a model: hessian", batches=4, guess=10) as bar:
        assert bar._bar.total == 40
        for products in range(1, 31):
            bar.step(products)
        assert (bar._bar.n, bar._bar.total) == (30, 40)
        bar.finish_batch(31)
        assert (bar._bar.n, bar._bar.total) == (31, 124)
        bar.step(5)
        assert bar._bar.n == 36
        for products in (21, 20, 20):
            bar.finish_batch(products)
        assert bar._bar.n == bar._bar.total == 92
