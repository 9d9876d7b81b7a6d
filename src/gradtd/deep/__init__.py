"""Impression GTD with networks; needs JAX and optax, the extra ``gradtd[deep]``.

`impression_loss` and `impression_direction` work with any ``apply(params, x)`` and any optax optimiser.
`gradtd.deep.baselines` has the losses of other methods, `EpisodeReplay` draws two batches from different episodes,
`DeepLearner` learns from a stream, and `gradtd.deep.control` has agents that act. ``docs/deep.md`` and
``docs/control.md`` describe when to use them and when not.
"""

from importlib.util import find_spec

from gradtd.core.checks import InputError

if find_spec("jax") is None or find_spec("optax") is None:
    raise InputError("gradtd.deep needs JAX and optax: pip install 'gradtd[deep]'.")

from gradtd.deep import baselines as baselines
from gradtd.deep import control as control
from gradtd.deep.impression import Batch as Batch
from gradtd.deep.impression import impression_direction as impression_direction
from gradtd.deep.impression import impression_loss as impression_loss
from gradtd.deep.impression import td_errors as td_errors
from gradtd.deep.learner import DeepLearner as DeepLearner
from gradtd.deep.mlp import Mlp as Mlp
from gradtd.deep.replay import EpisodeReplay as EpisodeReplay
