"""Products of sizes: as polynomials, as expressions, and under names that isl can take."""

from __future__ import annotations

from tensorad.ir.analysis.polynomial import Polynomial
from tensorad.ir.expr import (
    ZERO,
    Axis,
    Call,
    Const,
    Expr,
    Size,
    add,
    axis,
    call,
    int_const,
    mul,
    size_var,
    sub,
)
from tensorad.ir.visit import children, postorder, rewrite, substitute
from tensorad.simplify.index.quasi_affine import is_affine


class Names:
    """Names for what is not linear in sizes: to isl it is a size like any other."""

    def __init__(self) -> None:
        self.sizes: dict[Expr, Size] = {}
        self.axes: dict[Expr, Axis] = {}

    def linear(self, root: Expr) -> Expr:
        """The expression with named sizes and the axes over them."""
        return rewrite(root, self._named, dict(self.axes))

    def _named(self, e: Expr) -> Expr | None:
        if isinstance(e, Call) and e.dtype.is_integer and is_of_sizes(e) and not is_affine(e, ()):
            if e.op in ("add", "sub", "neg"):
                return None  # its parts have names
            whole = substitute(e, {name: old for old, name in self.sizes.items()})
            return self.sizes.setdefault(whole, size_var(f"({whole})"))
        return None

    def axis(self, a: Axis) -> Axis:
        """The axis with named sizes in its bounds."""
        bounds = [self.linear(b) for b in (a.lower, a.upper, a.step)]
        same = all(b is c for b, c in zip(bounds, (a.lower, a.upper, a.step), strict=True))
        self.axes[a] = a if same else axis(a.name, *bounds)
        return self.axes[a]


def is_of_sizes(e: Expr) -> bool:
    """Whether sizes alone decide the value."""
    return e.dtype.is_integer and not any(
        not isinstance(x, (Const, Size, Call)) for x in postorder(e)
    )


def of_sizes(root: Expr) -> Polynomial:
    """A product of sizes and of sums of sizes; linear sums are symbols of their own."""
    found: dict[Expr, Polynomial] = {}
    for e in postorder(root):
        args = [found[c] for c in children(e)]
        if isinstance(e, Const):
            found[e] = Polynomial.constant(int(e.value))
        elif isinstance(e, Call) and e.op == "mul":
            found[e] = args[0] * args[1]
        elif isinstance(e, Call) and e.op in ("add", "sub") and not is_affine(e, ()):
            found[e] = args[0] + args[1] if e.op == "add" else args[0] - args[1]
        else:
            found[e] = Polynomial.symbol(e)
    return found[root]


def to_expr(p: Polynomial) -> Expr:
    """The polynomial as an expression, positive terms first."""
    total: Expr | None = None
    negative: list[Expr] = []
    for monomial, c in p.terms.items():
        term: Expr | None = None
        for s, power in monomial:
            for _ in range(power):
                term = s if term is None else mul(term, s)
        size = int_const(abs(int(c)))
        term = size if term is None else mul(size, term)
        if c < 0:
            negative.append(term)
        else:
            total = term if total is None else add(total, term)
    for term in negative:
        total = sub(ZERO if total is None else total, term)
    return ZERO if total is None else total


def is_linear(p: Polynomial) -> bool:
    """Whether every term with an axis is a number times that axis."""
    return all(
        len(m) == 1 and m[0][1] == 1 for m in p.terms if any(isinstance(s, Axis) for s, _ in m)
    )


def equation(left: Polynomial, right: Polynomial) -> Expr:
    """left == right."""
    return call("eq", to_expr(left), to_expr(right))


def moduli(*sides: Polynomial) -> list[Polynomial]:
    """What the coefficients of axes with sizes in them offer as a modulus, smallest first."""
    found: dict[Polynomial, None] = {}
    for p in sides:
        for monomial, c in p.terms.items():
            sizes = tuple([t for t in monomial if not isinstance(t[0], Axis)])
            if sizes and len(sizes) < len(monomial):
                found[Polynomial({sizes: abs(c)})] = None
    return sorted(found, key=lambda p: (sum(n for m in p.terms for _, n in m), str(p)))
