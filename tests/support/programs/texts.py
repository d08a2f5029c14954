"""Programs as text: each form of the language, alone and mixed."""

from __future__ import annotations

from typing import Final

SUM: Final = """\
def main(x : float32[5, 5], y : float32[5, 5]) -> float32[]:
  lv0 : float32[5, 5] = [i, j] x[i, j] + y[i, j]
  gv0 : float32[] = sum over (i in [0, 5), j in [0, 5)) of lv0[i, j]
  return gv0
"""

TUPLES: Final = """\
def main(x : (float32[3], (float32[3],), ())) -> (float32[3], (float32[3], float32[])):
  lv0 = x
  a = lv0[0]
  lv0_1 = lv0[1]
  b = lv0_1[0]
  c = (a, (b, a), ())
  d = c[1]
  e = d[0]
  f = e
  g : float32[3] = [i] b[i]*a[i]
  k : float32[] = 2.5
  return (g, (f, k))
"""

CALLS: Final = """\
def scale(x : float32[n], k : float32[]) -> float32[n]:
  y : float32[n] = [i] x[i]*k
  return y

def twice(x : float32[n]) -> (float32[n], float32[n]):
  two : float32[] = 2.0
  y : float32[n] = call scale(x, two)
  z : float32[n], y_1 : float32[n] = call scale(y, two) save y
  return (z, y_1)

def main(x : float32[n]) -> float32[n]:
  c : (float32[n], float32[n]) = call twice(x)
  a = c[0]
  s : float32[n], t : float32[n] = call twice(a)
  w : float32[n] = [i] s[i] + t[i]
  return w
"""

BRANCH: Final = """\
def main(n : int64[], x : float64[3]) -> (float64[3], float64[3], float64[3]):
  y : float64[3], double : float64[3], square : float64[3] = branch n (x, p = x):
  case 0:
    double_1 : float64[3] = [i] x[i]*2.0
    yield double_1
    save double_1
  case 1:
    square_1 : float64[3] = [i] p[i]**2.0
    yield square_1
    save square_1
  return (y, double, square)
"""

LOOPS: Final = """\
def main[k](x : float64[4, n]) -> (float64[n], float64[], float64[4, n], float64[4, 3]):
  zero : float64[n] = [j] 0.0
  one : float64[] = 1.0
  total : float64[n], rest : float64[], row : float64[4, n], d : float64[4, 3] = loop t in [0, 4) \
carry (s = zero, u = one) scan (part = x) fixed (one):
    inner : float64[], trail : float64[3] = loop r in [0, 3) reverse carry (v = u) fixed (part):
      deep : float64[] = loop q in [0, k) carry (w = v) fixed (part):
        step : float64[] = w + 0.25*float64(t*3 + r - q)
        yield step
      next : float64[] = deep*0.5
      yield next
      save next
    after : float64[n] = [j] s[j]*0.5 + part[j]*inner + one
    yield after, inner
    save after, trail
  return (total, rest, row, d)
"""

WHILE: Final = """\
def main(a : float64[], c : int32[]) -> (float64[], float64[n], int64[], (float64[], float64[])):
  one : float64[] = 1.0
  root : float64[], trail : float64[n] = loop t in [0, n) carry (x = one) fixed (a) while:
    test : bool[] = abs(x*x - a) > 1e-13*a
    yield test
  do:
    after : float64[] = (x + a/x)*0.5
    yield after
    save x
  steps : int64[] = n
  pair = (root, a)
  last : (float64[], float64[]) = loop t_1 in [0, m) times c carry (p = pair):
    p_0 = p[0]
    p_1 = p[1]
    swapped = (p_1, p_0)
    yield swapped
  return (root, trail, steps, last)
"""

ELEMENTS: Final = """\
constant table : float32[2, 3] = [[inf, -inf, nan], [-0.0, 1e-45, 3.4028235e+38]]
constant extremes : int64[2] = [-9223372036854775808, 9223372036854775807]
constant flags : bool[2] = [True, False]
constant none_at_all : float64[0, 2] = []
combiner pair(x0 : float32, x1 : int64; y0 : float32, y1 : int64) from 0.0, -1 = \
x0 + y0, select(y0 > x0, y1, x1)
function square(x : float32) -> float32 = x*x partials y: 2.0*x
associative combiner logaddexp(x : float32; y : float32) from -inf = \
max(x, y) + log(exp(x - max(x, y)) + exp(y - max(x, y)))

def main(x : float32[4, 6], p : int64[4]) -> (float32[4], int64[4], float32[6], float32[4, 6], \
float32[4], float32[4], float32[], float32[4]):
  best : float32[4], where : int64[4] = [i] argmax over (j in [0, 6)) of (x[i, j], j)
  own : int64[4] = [i] pair[1] over (j in [0, 6) step 2, where j > i) of (x[i, j], j)
  s : float32[6] = scatter sum over (i in [0, 4)) at [p[i]] of x[i, 0] where p[i] >= 0, at [i] of \
square(x[i, 1])
  s_1 : float32[6] = scatter max from s over (i in [0, 4)) at [5 - i] of float32(own[i])
  c : float32[4, 6], c.last : float32[4] = scan reverse sum for (i in [0, 4)) over (j in [0, 6)) \
at [i, j] of x[i, j] from float32(i) where j != 2 giving after, last
  l : float32[4] = [i] (logaddexp over (j in [0, 6)) of x[i, j]) + stop_gradient(x[i, 0])
  m : float32[] = table[1, 1] + select(flags[0], 3.0, -(1.0)) + \
float32((1 as int8)) + float32(extremes[0]//3)
  r : float32[4] = [i] {t0 = sum over (j in [0, i + 1)) of x[i, j]} t0/(t0 + 1.0)
  return (best, where, s_1, c, c.last, l, m, r)
"""

NAMES: Final = """\
def main(`loop` : float32[2], `a b` : float32[2], i : float32[]) -> float32[2]:
  `T'` : float32[2] = [i_1] `loop`[i_1] + `a b`[i_1]*i
  return `T'`
"""

TEXTS: Final = {
    "sum": SUM, "tuples": TUPLES, "calls": CALLS, "branch": BRANCH, "loops": LOOPS,
    "while": WHILE, "elements": ELEMENTS, "names": NAMES,
}  # fmt: skip
