"""Theory you can call: will it converge, how fast, to what floor, with which step-size and batch size?"""

from gradtd.theory.exact import Curve, best_alpha, error_curve, floor, rate, stability_threshold, stationary
from gradtd.theory.laws import Law, law

__all__ = ["Curve", "Law", "best_alpha", "error_curve", "floor", "law", "rate", "stability_threshold", "stationary"]
