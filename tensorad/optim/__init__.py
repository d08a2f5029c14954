"""Optimisers: what a training step does with gradients, of trees of weights.

They are formulas on leaves, so they are parts of programs (with tensors, inside of `ta.function`
and its loops), and run on NumPy's arrays just as well:

    adam = ta.optim.Adam(1e-3)
    state = adam.init(weights)
    loss, gradients = ta.value_and_grad(cost)(weights, batch)
    weights, state = adam.step(weights, gradients, state)

An optimiser is a tree with its rate as a leaf: as an argument of a function it may have another
rate in each call, and inside of a loop the rate may be computed from the counter. All else of it
is known when a program is traced.
"""

from tensorad.optim.adam import Adam, AdamState
from tensorad.optim.descent import SGD, Momentum

__all__ = ["SGD", "Adam", "AdamState", "Momentum"]
