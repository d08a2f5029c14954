"""Texts that are no programs: the whole error of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tensorad.errors import ProgramTextError
from tensorad.ir.text.parser import parse_program

HEAD: Final = "def main(x : float32[3], k : float64[], n : int64[]) -> float32[3]:\n"
TEXTS: Final = """
# undefined name
MAIN
  y : float32[3] = [i] x[i] + h[i]
  return y
# undefined value
MAIN
  return y
# types disagree
MAIN
  y : float32[3] = [i] x[i] + k
  return y
# another type than declared
MAIN
  y : float32[4] = [i] 1.0
  z = (y, x)
  return z
# alias of another type
MAIN
  y : float32[4] = x
  return y
# field of another type
MAIN
  y = (x, k)
  z : float32[4] = y[0]
  return z
# typed field that is not there
MAIN
  y = (x, k)
  z : float32[3] = y[2]
  return z
# scan of states whose extents nothing tells
MAIN
  y : float32[3] = scan sum for (i in [0, 3)) over (j in [0, i)) at [i, j] of x[j] giving last
  return y
# scan of states with another number of axes
MAIN
  y : float32[3] = scan sum over (j in [0, 3)) at [j, j] of x[j]
  return y
# number of no integer
MAIN
  y : int64[] = n + 0.5
  return x
# number out of range
MAIN
  y : int8[] = 300
  return x
# rank
MAIN
  y : float32[3] = [i] x[i, i]
  return y
# no axes
MAIN
  y : float32[3] = x[0]
  return y
# no type
MAIN
  y = [i] x[i]
  return y
# sign
MAIN
  y : float32[3] = [i] x[i] ? 2.0
  return y
# missing bracket
MAIN
  y : float32[3] = [i] (x[i] + 1.0
  return y
# indentation
MAIN
    y : float32[3] = [i] x[i]
  return y
# twice
MAIN
  y : float32[3] = [i] x[i]
  y : float32[3] = [i] x[i]
  return y
# undefined function
MAIN
  y = call f(x)
  return y
# undefined scalar function
MAIN
  y : float32[3] = [i] f(x[i])
  return y
# undefined combiner
MAIN
  y : float32[] = f over (i in [0, 3)) of x[i]
  return y
# components
MAIN
  y : int64[] = argmax over (i in [0, 3)) of (x[i], i)
  return y
# dtype
MAIN
  y : float16[] = 0.5
  return y
# no comparison of numbers
MAIN
  y : bool[] = 1.0 < 2.0
  return y
# field
MAIN
  y = (x, x)
  z = y[2]
  return z
# tuple in a formula
MAIN
  y = (x, x)
  z : float32[3] = [i] y[i]
  return z
# arguments
def f(a : float32[3]) -> float32[3]:
  return a

MAIN
  y = f(x, x)
  return y
# shapes of arguments
def f(a : float32[4]) -> float32[4]:
  return a

MAIN
  y = f(x)
  return y
# outside of a block
MAIN
  y : float32[3] = loop t in [0, 4) carry (s = x):
    u : float32[3] = [i] s[i] + x[i]
    yield u
  return y
# carry
MAIN
  y : float32[3] = loop t in [0, 4) carry (s = x):
    u : float32[2] = [i] s[i]
    yield u
  return y
# no carry
MAIN
  y : float32[3] = loop t in [0, 4) fixed (x):
    yield x
  return y
# scanned
MAIN
  z : float32[] = 0.0
  y : float32[] = loop t in [0, 4) carry (s = z) scan (p = x):
    yield s
  return y
# test
MAIN
  y : float32[3] = loop t in [0, m) carry (s = x) while:
    yield s
  do:
    yield s
  return y
# cases
MAIN
  y = branch n (x):
  case 0:
    yield x
  case 1:
    z = (x, x)
    yield z
  return y
# index of a branch
MAIN
  y = branch x (x):
  case 0:
    yield x
  return y
# names
MAIN
  y : float32[3], z : float32[3] = [i] x[i]
  return y
# no elements
constant c : float32[2]

MAIN
  return x
# too few elements
constant c : float32[2] = [1.0]

MAIN
  return x
# the end
MAIN
  y : float32[3] = [i] x[i]
# result
MAIN
  return n
# reserved
MAIN
  loop : float32[] = 1.0
  return x
"""
"""Below its name each text; MAIN stands for `HEAD`."""


def error_of(text: str) -> str:
    with pytest.raises(ProgramTextError) as caught:
        parse_program(text)
    return str(caught.value)


def test_errors_say_what_where_and_what_to_do(golden: Callable[[str, str], None]) -> None:
    found = []
    for section in TEXTS.replace("MAIN\n", HEAD).split("\n# ")[1:]:
        name, _, text = section.partition("\n")
        error = error_of(text)
        assert error.count("\n  in: ") == 1 and error.count("\n  hint: ") == 1
        found.append(f"# {name}\n{error}")
    golden("bad_program_texts", "\n\n".join(found))
