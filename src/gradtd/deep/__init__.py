"""Impression GTD with networks: the extra ``gradtd[deep]``, JAX and optax.

`impression_loss` and `impression_direction` are the family, for any ``apply(params, x)`` and any optax optimiser;
`gradtd.deep.baselines` has what they are compared with, `EpisodeReplay` draws two batches of different episodes, and
`DeepLearner` puts them together for a stream. When to use them, and when not: ``docs/deep.md``.
"""

from importlib.util import find_spec

import lazy_loader

from gradtd.core.checks import InputError

if find_spec("jax") is None or find_spec("optax") is None:
    raise InputError("gradtd.deep needs JAX and optax: pip install 'gradtd[deep]'.")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["baselines"],
    submod_attrs={
        "impression": ["Batch", "impression", "impression_direction", "impression_loss", "td_errors"],
        "networks": ["Mlp"],
        "replay": ["EpisodeReplay"],
    },
)
