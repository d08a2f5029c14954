"""Solutions of equations and their implicit derivatives, as rules in the language."""

from tensorad.implicit.equations import fixed_point, minimize, root
from tensorad.implicit.linear import linear_solve

__all__ = ["fixed_point", "linear_solve", "minimize", "root"]
