"""Programs and their adjoints, both written by hand as they must be printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import tensorad as ta
from tests.seeds.support.normal_form import check_normal_form


@dataclass(frozen=True)
class Golden:
    """A function `main`, and what `ta.gradient` adds.

    Attributes:
        options: of `ta.gradient`.
    """

    before: str
    adjoint: str
    options: dict[str, Any] = field(default_factory=dict)


SUM: Final = Golden(
    """\
def main(x : float32[5, 5], y : float32[5, 5]) -> float32[]:
  lv0 : float32[5, 5] = [i, j] x[i, j] + y[i, j]
  gv0 : float32[] = sum over (i in [0, 5), j in [0, 5)) of lv0[i, j]
  return gv0
""",
    """\
def main_adjoint(x : float32[5, 5], y : float32[5, 5]) -> \
(float32[], (float32[5, 5], float32[5, 5])):
  lv0 : float32[5, 5] = [i, j] x[i, j] + y[i, j]
  gv0 : float32[] = sum over (i in [0, 5), j in [0, 5)) of lv0[i, j]
  gv0_adjoint : float32[] = 1.0
  lv0_adjoint : float32[5, 5] = [i, j] gv0_adjoint
  x_adjoint : float32[5, 5] = [i, j] lv0_adjoint[i, j]
  y_adjoint : float32[5, 5] = [i, j] lv0_adjoint[i, j]
  return (gv0, (x_adjoint, y_adjoint))
""",
)

UNUSED: Final = Golden(
    """\
def main(x : float32[5, 5], y : float32[5, 5]) -> float32[]:
  lv0 : float32[5, 5] = [i, j] x[i, j] + y[i, j]
  lv1 : float32[5, 5] = [i, j] x[i, j] - y[i, j]
  lv2 : float32[] = sum over (i in [0, 5), j in [0, 5)) of lv1[i, j]
  gv0 : float32[] = sum over (i in [0, 5), j in [0, 5)) of lv0[i, j]
  return gv0
""",
    SUM.adjoint,
)

TUPLE: Final = Golden(
    """\
def main(a : float64[3], b : float64[]) -> (float64[3], float64[]):
  c = (a, b)
  return c
""",
    """\
def main_adjoint(a : float64[3], b : float64[], head : (float64[3], float64[])) -> \
((float64[3], float64[]), (float64[3], float64[])):
  head_0 = head[0]
  head_1 = head[1]
  c = (a, b)
  c_adjoint = (head_0, head_1)
  a_adjoint = c_adjoint[0]
  b_adjoint = c_adjoint[1]
  return (c, (a_adjoint, b_adjoint))
""",
    {"cotangent": "head"},
)

FIELD: Final = Golden(
    """\
def main(a : (float64[3], float64[])) -> float64[]:
  b = a[0]
  gv0 : float64[] = sum over (i in [0, 3)) of b[i]*2.5
  return gv0
""",
    """\
def main_adjoint(a : (float64[3], float64[])) -> (float64[], ((float64[3], float64[]),)):
  b = a[0]
  gv0 : float64[] = sum over (i in [0, 3)) of b[i]*2.5
  gv0_adjoint : float64[] = 1.0
  b_adjoint : float64[3] = [i] gv0_adjoint*2.5
  a_adjoint_1 : float64[] = 0.0
  a_adjoint = (b_adjoint, a_adjoint_1)
  return (gv0, (a_adjoint,))
""",
)

ALIAS: Final = Golden(
    """\
def main(x : (float64[5, 5], float64[5, 5])) -> float64[]:
  lv0 = x
  lv1 = lv0[0]
  lv2 = lv0[1]
  lv3 : float64[5, 5] = [i, j] lv1[i, j] - lv2[i, j]
  gv0 : float64[] = sum over (i in [0, 5), j in [0, 5)) of lv3[i, j]
  return gv0
""",
    """\
def main_adjoint(x : (float64[5, 5], float64[5, 5])) -> \
(float64[], ((float64[5, 5], float64[5, 5]),)):
  lv0 = x
  lv1 = lv0[0]
  lv2 = lv0[1]
  lv3 : float64[5, 5] = [i, j] lv1[i, j] - lv2[i, j]
  gv0 : float64[] = sum over (i in [0, 5), j in [0, 5)) of lv3[i, j]
  gv0_adjoint : float64[] = 1.0
  lv3_adjoint : float64[5, 5] = [i, j] gv0_adjoint
  lv2_adjoint : float64[5, 5] = [i, j] -lv3_adjoint[i, j]
  lv1_adjoint : float64[5, 5] = [i, j] lv3_adjoint[i, j]
  lv0_adjoint = (lv1_adjoint, lv2_adjoint)
  x_adjoint = lv0_adjoint
  return (gv0, (x_adjoint,))
""",
)

BOTH: Final = Golden(
    """\
def main(a : float64[3], b : float64[3]) -> float64[]:
  c = (a, b)
  d = c[0]
  e = c[1]
  gv0 : float64[] = sum over (i in [0, 3)) of d[i]*e[i]
  return gv0
""",
    """\
def main_adjoint(a : float64[3], b : float64[3]) -> (float64[], (float64[3], float64[3])):
  c = (a, b)
  d = c[0]
  e = c[1]
  gv0 : float64[] = sum over (i in [0, 3)) of d[i]*e[i]
  gv0_adjoint : float64[] = 1.0
  e_adjoint : float64[3] = [i] gv0_adjoint*d[i]
  d_adjoint : float64[3] = [i] gv0_adjoint*e[i]
  c_adjoint = (d_adjoint, e_adjoint)
  a_adjoint = c_adjoint[0]
  b_adjoint = c_adjoint[1]
  return (gv0, (a_adjoint, b_adjoint))
""",
)

AGAIN: Final = Golden(
    """\
def main(a : float64[3], b : float64[3], g : float64[3]) -> float64[]:
  c = (a, b, g)
  d = c[0]
  e = c[1]
  f = c[1]
  h = c[2]
  lv0 : float64[3] = [i] d[i] + e[i]
  lv1 : float64[3] = [i] f[i] + h[i]
  gv0 : float64[] = sum over (i in [0, 3)) of lv0[i]*lv1[i]
  return gv0
""",
    """\
def main_adjoint(a : float64[3], b : float64[3], g : float64[3]) -> \
(float64[], (float64[3], float64[3], float64[3])):
  c = (a, b, g)
  d = c[0]
  e = c[1]
  f = c[1]
  h = c[2]
  lv0 : float64[3] = [i] d[i] + e[i]
  lv1 : float64[3] = [i] f[i] + h[i]
  gv0 : float64[] = sum over (i in [0, 3)) of lv0[i]*lv1[i]
  gv0_adjoint : float64[] = 1.0
  lv1_adjoint : float64[3] = [i] gv0_adjoint*lv0[i]
  lv0_adjoint : float64[3] = [i] gv0_adjoint*lv1[i]
  h_adjoint : float64[3] = [i] lv1_adjoint[i]
  f_adjoint : float64[3] = [i] lv1_adjoint[i]
  e_adjoint : float64[3] = [i] lv0_adjoint[i]
  d_adjoint : float64[3] = [i] lv0_adjoint[i]
  c_adjoint_1 : float64[3] = [i] f_adjoint[i] + e_adjoint[i]
  c_adjoint = (d_adjoint, c_adjoint_1, h_adjoint)
  a_adjoint = c_adjoint[0]
  b_adjoint : float64[3] = [i] c_adjoint_1[i]
  g_adjoint = c_adjoint[2]
  return (gv0, (a_adjoint, b_adjoint, g_adjoint))
""",
)

NESTED: Final = Golden(
    """\
def main(a : float64[3], b : float64[3], e : float64[]) -> float64[]:
  c = ((a, b), (e,), ())
  d = c[0]
  g = d[1]
  c_1 = c[1]
  h = c_1[0]
  gv0 : float64[] = (sum over (i in [0, 3)) of g[i])*h
  return gv0
""",
    """\
def main_adjoint(a : float64[3], b : float64[3], e : float64[]) -> \
(float64[], (float64[3], float64[3], float64[])):
  c = ((a, b), (e,), ())
  d = c[0]
  g = d[1]
  c_1 = c[1]
  h = c_1[0]
  gv0 : float64[] = (sum over (i in [0, 3)) of g[i])*h
  gv0_adjoint : float64[] = 1.0
  gv0.sum : float64[] = sum over (i in [0, 3)) of g[i]
  h_adjoint : float64[] = gv0_adjoint*gv0.sum
  c_1_adjoint = (h_adjoint,)
  g_adjoint : float64[3] = [i] gv0_adjoint*h
  d_adjoint_1 : float64[3] = [i] g_adjoint[i]
  c_adjoint_0_1 : float64[3] = [i] d_adjoint_1[i]
  c_adjoint_1_0 = c_1_adjoint[0]
  a_adjoint : float64[3] = [i] 0.0
  b_adjoint : float64[3] = [i] c_adjoint_0_1[i]
  e_adjoint : float64[] = c_adjoint_1_0
  return (gv0, (a_adjoint, b_adjoint, e_adjoint))
""",
)

TWICE: Final = Golden(
    """\
def main(x : float64[3, 3]) -> float64[]:
  lv1 = x
  lv2 : float64[3, 3] = [i, j] lv1[i, j] + x[i, j]
  lv3 : float64[3, 3] = [i, j] lv2[i, j] + lv1[i, j]
  lv4 : float64[] = sum over (i in [0, 3), j in [0, 3)) of lv3[i, j]
  return lv4
""",
    """\
def main_adjoint(x : float64[3, 3]) -> (float64[], (float64[3, 3],)):
  lv1 = x
  lv2 : float64[3, 3] = [i, j] lv1[i, j] + x[i, j]
  lv3 : float64[3, 3] = [i, j] lv2[i, j] + lv1[i, j]
  lv4 : float64[] = sum over (i in [0, 3), j in [0, 3)) of lv3[i, j]
  lv4_adjoint : float64[] = 1.0
  lv3_adjoint : float64[3, 3] = [i, j] lv4_adjoint
  lv2_adjoint : float64[3, 3] = [i, j] lv3_adjoint[i, j]
  lv1_adjoint : float64[3, 3] = [i, j] lv3_adjoint[i, j] + lv2_adjoint[i, j]
  x_adjoint : float64[3, 3] = [i, j] lv2_adjoint[i, j] + lv1_adjoint[i, j]
  return (lv4, (x_adjoint,))
""",
)

MEAN: Final = Golden(
    """\
def main(x : float64[n, 2], y : float64[n]) -> float64[]:
  rows : float64[] = float64(n)
  lv0 : float64[n] = [i] x[i, 0]*y[i]
  gv0 : float64[] = (sum over (i in [0, n)) of lv0[i])/rows
  return gv0
""",
    """\
def main_adjoint(x : float64[n, 2], y : float64[n]) -> (float64[], (float64[n, 2], float64[n])):
  rows : float64[] = float64(n)
  lv0 : float64[n] = [i] x[i, 0]*y[i]
  gv0 : float64[] = (sum over (i in [0, n)) of lv0[i])/rows
  gv0_adjoint : float64[] = 1.0
  lv0_adjoint : float64[n] = [i] gv0_adjoint/rows
  x_adjoint : float64[n, 2] = [i, x1] select(x1 == 0, lv0_adjoint[i]*y[i], 0.0)
  y_adjoint : float64[n] = [i] lv0_adjoint[i]*x[i, 0]
  return (gv0, (x_adjoint, y_adjoint))
""",
)

GOLDENS: Final = {
    "sum": SUM, "unused": UNUSED, "tuple": TUPLE, "field": FIELD, "alias": ALIAS, "both": BOTH,
    "again": AGAIN, "nested": NESTED, "twice": TWICE, "mean": MEAN,
}  # fmt: skip


def check_golden(name: str) -> None:
    """The adjoint is printed as it was written by hand, in normal form."""
    g = GOLDENS[name]
    found = ta.gradient(ta.module(g.before), "main", **g.options)
    assert str(found) == f"{g.before}\n{g.adjoint}"
    check_normal_form(found.program)
