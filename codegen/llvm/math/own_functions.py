"""Functions of users in LLVM IR: their code is tried by itself before it stands in a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorad.codegen.llvm.text import Code, Writer
from tensorad.codegen.target import object_code
from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import DType
from tensorad.ir.elementary.table import Elementary
from tensorad.process import memoised


def definition(w: Writer, head: str, parameters: Sequence[str], result: str) -> str:
    """The function of what was written with `w`, which is nothing else's."""
    w.code.line(f"ret {w.type} {result}")
    operands = ", ".join([f"{w.type} {p}" for p in parameters])
    lines = [f"define {head}({operands}) nounwind {{", "entry:"]
    return "\n".join([*lines, *w.code.regions[0].lines, *w.code.failures, "}"])


def check_code(row: Elementary, dtype: DType, lanes: int) -> None:
    """That a user's code gives a value, of this dtype and as many lanes (0: a scalar).

    Raises:
        DefinitionError: it gives something else, or LLVM refuses it.
    """
    said = _refusal(row.code, row.arity, dtype, lanes)
    if said:
        arguments = ", ".join(("a", "b")[: row.arity])
        raise DefinitionError(
            f"the code of the function {row.name} gives no {dtype}: {said}.",
            where=f"{row.name}({arguments}) of {f'{lanes} lanes' if lanes else 'one number'}",
            hint="give the register with the value, as the methods of w do; what w.of(...) made of "
            "another dtype has to be converted.",
        )


@memoised(256)
def _refusal(code: Callable[..., str], arity: int, dtype: DType, lanes: int) -> str:
    """What is wrong with the code; "" if nothing is."""
    w = Writer(Code(), 0, dtype, lanes)
    parameters = tuple([f"%x{n}" for n in range(arity)])
    result: object = code(w, *parameters)
    if not isinstance(result, str):
        return f"{result!r} is no register"
    own = definition(w, f"{w.type} @tried", parameters, result)
    others = (*w.code.declarations.values(), *w.code.functions.values())
    return object_code.refusal("\n".join([*others, own]))
