"""gradtd: what a policy is worth, from data that another policy produced, with linear values.

    >>> import gradtd
    >>> result = gradtd.run("boyan_chain", "impression_gtd", alpha=5, batch_size=16, runs=10, steps=2000)
    >>> gradtd.measure(result, "rmsve").shape
    (10, 100)

`run` an algorithm on a problem for many seeds, `learn` from one `Stream` of experience, `sample` a stream
from a problem, `measure` the weights a run leaves; a `Learner` takes its steps one by one.
Every name is loaded on first use only; the list of them is ``__init__.pyi``.
What long steps do is logged under the name ``gradtd``.
"""

import logging

import lazy_loader

__version__ = "0.2.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
