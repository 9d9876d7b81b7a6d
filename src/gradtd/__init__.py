"""gradtd estimates the value of a policy from data that another policy produced, with linear value functions.

    >>> import gradtd
    >>> result = gradtd.run("boyan_chain", "impression_gtd", alpha=5, batch_size=16, runs=10, steps=2000)
    >>> gradtd.measure(result, "rmsve").shape
    (10, 100)

`evaluate` estimates a value from a log. `run` runs an algorithm on a problem for many seeds, `learn` learns from one
`Stream` of experience, `sample` draws a stream from a problem, `measure` computes the error of a run's weights, and a
`Learner` takes steps one by one. Names are loaded on first use; ``__init__.pyi`` lists them. Long computations log
their progress under the name ``gradtd``.
"""

import logging

import lazy_loader

__version__ = "0.2.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
