"""Theory as functions: whether a rule converges, how fast, to what floor, and with which step-size and batch size.

Start with `law`; `printed`, `corrected` and the exact functions are three layers on top of it. See docs/theory.md.
"""

from gradtd.theory.as_printed import Printed, Row, Smoothness, printed
from gradtd.theory.corrections import Corrected, corrected
from gradtd.theory.curves import simulate
from gradtd.theory.exact import Curve, best_alpha, error_curve, floor, rate, stability_threshold, stationary
from gradtd.theory.laws import Law, law
from gradtd.theory.odes import JointCurve, Ode, ode
from gradtd.theory.summary import LambdaRow, lambdas, summary

__all__ = [
    "Corrected",
    "Curve",
    "JointCurve",
    "LambdaRow",
    "Law",
    "Ode",
    "Printed",
    "Row",
    "Smoothness",
    "best_alpha",
    "corrected",
    "error_curve",
    "floor",
    "lambdas",
    "law",
    "ode",
    "printed",
    "rate",
    "simulate",
    "stability_threshold",
    "stationary",
    "summary",
]
