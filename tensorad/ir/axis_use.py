"""What is known of axes beside their bounds."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary

from tensorad.ir.nodes import Axis

reduce_axes: Final[WeakValueDictionary[int, Axis]] = WeakValueDictionary()
"""Axes made by `reduce_axis`: an error can tell them from the axes of another compute."""
bound_axes: Final[WeakValueDictionary[int, Axis]] = WeakValueDictionary()
"""Reduce axes that a compute binds already; another compute gets copies of them."""
