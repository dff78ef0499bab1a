"""Operations whose derivative can be differentiated again at about the cost of their arithmetic.

torch has a second derivative of each of them, but composes some out of many passes over memory, or calls a convolution
in a shape it is slow at. A product with a Hessian goes through three functions of an operation y = f(x, w):

    once, while the graph is built     y,  and  (gx, gw) = f'(gy; x, w)
    in each product                    the derivative of f' along (a, b), the vectors that belong to (gx, gw)
    in each product                    f'(gy'; x, w) again

Each file writes them out for one kind of operation: the outer `autograd.Function` is f, its backward applies the inner
one, which is f', whose backward is the second line. What they do not cover goes to torch.
"""

from vitscope.curvature.double_backward.mode import TwiceDifferentiable

__all__ = ["TwiceDifferentiable"]
