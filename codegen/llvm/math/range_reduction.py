"""Range reduction of large angles (Payne and Hanek): x / (2 pi) from stored bits of 1 / (2 pi).

A double is m * 2^e with a whole m. Bits of 1/(2 pi) so high that m * 2^e makes whole turns of
them are left out, and so are those too low to matter; the 192 bits between them times m, without
whole turns, are the angle to 128 bits (Payne and Hanek, "Radian reduction for trigonometric
functions", 1983). Only lanes that need it take this way.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm.text import Code, Writer, constant_text, type_text
from tensorad.ir.dtypes import FLOAT32, FLOAT64, DType
from tensorad.ir.elementary.steps import absolute
from tensorad.ir.elementary.table import FarAngles

_ZEROS: Final = 64
"""Bits of 0 before the stored ones."""
_INVERSE_TURN: Final = (
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef158"
    "6dc91b8e909374b801924bba827464873f877ac72c4a69cfba208d7d4baed121"
    "3a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603"
    "fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5e"
    "cf41ce7de294a4ba9afed7ec47e357421580cc11bf1edaeafc33ef0826bd0d87"
)
"""Bits of 1 / (2 pi), the first worth 1/2."""
_TURN: Final = (6.283185307179586, 2.4492935982947064e-16)


def with_large_angles(w: Writer, name: str, limit: float, x: str, near: str) -> None:
    """Return `near`, with the lanes where |x| >= limit (and finite) computed by @far.<name>."""
    code = w.code
    far = w.compare("oge", absolute(w, x), w.const(limit))
    if not w.lanes:
        code.line(f"br i1 {far}, label %far, label %near")
        code.failures += ["far:", *_one_lane(w.dtype, name, x), f"ret {w.type} %value"]
    else:
        bits = w.put(f"bitcast <{w.lanes} x i1> {far} to i{w.lanes}")
        some = w.put(f"icmp ne i{w.lanes} {bits}, 0")
        code.regions[0].lines[:0] = [
            f"%angles = alloca {w.type}, align 64",
            f"%results = alloca {w.type}, align 64",
        ]
        code.line(f"br i1 {some}, label %far, label %near")
        code.failures += _lane_loop(w, name, limit, x, near)
    code.start_block("near")


def _one_lane(dtype: DType, name: str, x: str) -> list[str]:
    """%value from a scalar of this type."""
    if dtype is FLOAT64:
        return [f"%value = call double @far.{name}(double {x})"]
    return [
        f"%wide = fpext float {x} to double",
        f"%found = call double @far.{name}(double %wide)",
        "%value = fptrunc double %found to float",
    ]


def _lane_loop(w: Writer, name: str, limit: float, x: str, near: str) -> list[str]:
    ty, ret = type_text(w.dtype), f"ret {w.type} %all"
    fabs = f"llvm.fabs.{'f32' if w.dtype is FLOAT32 else 'f64'}"
    w.code.declare(fabs, ty, ty)
    bounds = [constant_text(v, w.dtype) for v in (limit, float("inf"))]
    return [
        "far:",
        f"store {w.type} {x}, ptr %angles, align 64",
        f"store {w.type} {near}, ptr %results, align 64",
        "br label %lane",
        "lane:",
        "%n = phi i64 [0, %far], [%next, %skip]",
        f"%angle_at = getelementptr {ty}, ptr %angles, i64 %n",
        f"%angle = load {ty}, ptr %angle_at",
        f"%size = call {ty} @{fabs}({ty} %angle)",
        f"%beyond = fcmp oge {ty} %size, {bounds[0]}",
        f"%finite = fcmp olt {ty} %size, {bounds[1]}",
        "%wanted = and i1 %beyond, %finite",
        "br i1 %wanted, label %slow, label %skip",
        "slow:",
        *_one_lane(w.dtype, name, "%angle"),
        f"%result_at = getelementptr {ty}, ptr %results, i64 %n",
        f"store {ty} %value, ptr %result_at",
        "br label %skip",
        "skip:",
        "%next = add i64 %n, 1",
        f"%more = icmp ult i64 %next, {w.lanes}",
        "br i1 %more, label %lane, label %done",
        "done:",
        f"%all = load {w.type}, ptr %results, align 64",
        ret,
    ]


def define_large_angle(user: Code, name: str, far: FarAngles) -> None:
    """Give `user` the function double @far.<name>(double) and what it needs."""
    code = Code()
    w = Writer(code, 0, FLOAT64, 0)
    _fraction(w, far.turn)
    odd, r = _remainder(w, far.parts)
    result = far.code(w, r, odd)
    finite = w.compare("olt", absolute(w, "%x"), w.const(float("inf")))
    result = w.select(finite, result, w.const(float("nan")))
    lines = [f"define internal double @far.{name}(double %x) nounwind {{", "entry:"]
    lines += [*code.regions[0].lines, f"ret double {result}", "}"]
    data = bytes(_ZEROS // 8) + bytes.fromhex(_INVERSE_TURN)
    table = "".join([f"\\{b:02X}" for b in data])
    head = f'@turn_bits = private unnamed_addr constant [{len(data)} x i8] c"{table}"'
    user.functions.update({"turn_bits": head, f"far.{name}": "\n".join(lines)})
    user.declarations.update(code.declarations)


def _fraction(w: Writer, turn: float) -> None:
    """%f: the angle x in turns modulo 1, plus `turn`, as 128 bits after the point."""
    code, first = w.code, 1075 - _ZEROS
    code.declare("llvm.bswap.i64", "i64", "i64")
    code.declare("llvm.fshl.i64", "i64", "i64", "i64", "i64")
    lines = [
        "%bits = bitcast double %x to i64",
        "%field = lshr i64 %bits, 52",
        "%exponent = and i64 %field, 2047",
        f"%digits = and i64 %bits, {2**52 - 1}",
        f"%m = or i64 %digits, {2**52}",
        f"%where = sub i64 %exponent, {first}",
        "%shift = and i64 %where, 7",
        "%byte = lshr i64 %where, 3",
        "%p = getelementptr i8, ptr @turn_bits, i64 %byte",
    ]
    for n in range(4):
        lines += [
            f"%p{n} = getelementptr i8, ptr %p, i64 {8 * n}",
            f"%l{n} = load i64, ptr %p{n}, align 1",
            f"%w{n} = call i64 @llvm.bswap.i64(i64 %l{n})",
        ]
    lines.append("%m128 = zext i64 %m to i128")
    for n in range(3):
        lines += [
            f"%h{n} = call i64 @llvm.fshl.i64(i64 %w{n}, i64 %w{n + 1}, i64 %shift)",
            f"%z{n} = zext i64 %h{n} to i128",
            f"%t{n} = mul i128 %m128, %z{n}",
        ]
    code.regions[0].lines += [
        *lines,
        "%high = shl i128 %t0, 64",
        "%low = lshr i128 %t2, 64",
        "%sum = add i128 %high, %t1",
        "%size = add i128 %sum, %low",
        "%back = sub i128 0, %size",
        "%negative = icmp slt i64 %bits, 0",
        "%signed = select i1 %negative, i128 %back, i128 %size",
        f"%f = add i128 %signed, {round(turn * 4) << 126}",
    ]


def _remainder(w: Writer, parts: int) -> tuple[str, str]:
    """(whether the nearest multiple of 1/parts turn is odd, what is left in radians)."""
    unit = 1 << (129 - parts.bit_length())  # of 2^-128 turns: 2^127 for halves, 2^126 for quarters
    turn, turn_low = _TURN
    w.code.declare("llvm.ctlz.i128", "i128", "i128", "i1")
    w.code.regions[0].lines += [
        f"%g = add i128 %f, {unit // 2}",
        f"%parity = and i128 %g, {unit}",
        "%odd = icmp ne i128 %parity, 0",
        f"%inside = and i128 %g, {unit - 1}",
        f"%rest = sub i128 %inside, {unit // 2}",
        "%below = icmp slt i128 %rest, 0",
        "%minus = sub i128 0, %rest",
        "%distance = select i1 %below, i128 %minus, i128 %rest",
        "%zeros = call i128 @llvm.ctlz.i128(i128 %distance, i1 false)",
        "%first = shl i128 %distance, %zeros",
        "%first_half = lshr i128 %first, 64",
        "%top = trunc i128 %first_half to i64",
        "%top_high = lshr i64 %top, 32",
        f"%top_low = and i64 %top, {2**32 - 1}",
        "%a = sitofp i64 %top_high to double",
        "%b = sitofp i64 %top_low to double",
        "%zeros64 = trunc i128 %zeros to i64",
        "%scale_field = sub i64 1023, %zeros64",
        "%scale_bits = shl i64 %scale_field, 52",
        "%scale = bitcast i64 %scale_bits to double",
    ]
    rest = w.fma("%b", w.const(turn * 2.0**-64), w.mul("%a", w.const(turn_low * 2.0**-32)))
    r = w.mul(w.fma("%a", w.const(turn * 2.0**-32), rest), "%scale")
    return "%odd", w.select("%below", w.neg(r), r)
