"""A sweep that takes a second, for tests that change one thing of it."""

import gradtd


def small_sweep(**changed):
    given = {
        "problems": ["boyan_chain"],
        "algorithms": {"td": {"alpha": [0.03125, 0.0625]}},
        "runs": 4,
        "steps": 300,
        "block": 2,
    }
    return gradtd.Sweep(**(given | changed))
