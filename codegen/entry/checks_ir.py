"""The native entry's own functions, as LLVM IR: what arrays must be, and which binding fits.

Tables are 64-bit words that Python fills in (`native_type.py`).

record (one per function)
    inputs, outputs, address of the bindings' list, then `PARAMETER_WORDS` per parameter.
binding (one per binding of the symbolic sizes; the list ends with 0)
    what the arrays must be in numbers, the plan whose frames calls use, and the object that has
    both.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.llvm.call_block import field, loaded

MAX_OUTPUTS: Final = 32

# Words of a record, of one parameter in it, and of a binding.
INPUTS, OUTPUTS, BINDINGS, PARAMETERS = range(4)
DTYPE, RANK, FLAGS, IS_BOOL = range(4)
PARAMETER_WORDS: Final = 4
BINDING_VERSION, ALLOCATES, RELEASES, FRAMES, EXTENTS, MADE_EXTENTS, BYTES, OWNER = range(8)
BINDING_WORDS: Final = 8

HEAD: Final = object.__basicsize__
"""Bytes before an object's own fields: reference count and type."""
ARRAY_DATA: Final = HEAD
ARRAY_RANK: Final = HEAD + 8
ARRAY_EXTENTS: Final = HEAD + 16
ARRAY_DTYPE: Final = HEAD + 40
ARRAY_FLAGS: Final = HEAD + 48
TUPLE_ITEMS: Final = tuple.__basicsize__
LIST_ITEMS: Final = HEAD + 8
READY: Final = 0x101
"""NumPy's flags C_CONTIGUOUS and ALIGNED: native code may read the array."""
WRITABLE: Final = 0x501
"""The same and WRITEABLE."""


def item(name: str, ty: str, array: str, index: str) -> str:
    """The element of an array of words."""
    return (
        f"{name}.p = getelementptr i64, ptr {array}, i64 {index}\n"
        f"  {name} = load {ty}, ptr {name}.p"
    )


FITS: Final = f"""
define internal i1 @fits(ptr %o, ptr %parameter) nounwind {{
  {loaded("%type", "ptr", "%o", HEAD - 8)}
  %array = icmp eq ptr %type, @ndarray
  br i1 %array, label %look, label %no
look:
  {loaded("%dtype", "ptr", "%o", ARRAY_DTYPE)}
  {loaded("%dtype0", "ptr", "%parameter", 8 * DTYPE)}
  %a = icmp eq ptr %dtype, %dtype0
  {loaded("%rank", "i32", "%o", ARRAY_RANK)}
  {loaded("%rank0", "i32", "%parameter", 8 * RANK)}
  %b = icmp eq i32 %rank, %rank0
  {loaded("%flags", "i32", "%o", ARRAY_FLAGS)}
  {loaded("%flags0", "i32", "%parameter", 8 * FLAGS)}
  %kept = and i32 %flags, %flags0
  %c = icmp eq i32 %kept, %flags0
  %ab = and i1 %a, %b
  %abc = and i1 %ab, %c
  ret i1 %abc
no:
  ret i1 false
}}"""

SAME: Final = f"""
define internal i1 @same(ptr %o, ptr %extents, i64 %rank) nounwind {{
entry:
  {loaded("%own", "ptr", "%o", ARRAY_EXTENTS)}
  br label %head
head:
  %k = phi i64 [0, %entry], [%k1, %body]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %body, label %yes
body:
  {item("%a", "i64", "%own", "%k")}
  {item("%b", "i64", "%extents", "%k")}
  %k1 = add i64 %k, 1
  %equal = icmp eq i64 %a, %b
  br i1 %equal, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}"""

BOOLS: Final = f"""
define internal i1 @bools(ptr %o, i64 %bytes) nounwind {{
entry:
  {loaded("%data", "ptr", "%o", ARRAY_DATA)}
  %whole = and i64 %bytes, -8
  br label %head
head:
  %k = phi i64 [0, %entry], [%k1, %body]
  %seen = phi i64 [0, %entry], [%seen1, %body]
  %more = icmp slt i64 %k, %whole
  br i1 %more, label %body, label %tail
body:
  {field("%p", "%data", "%k")}
  %word = load i64, ptr %p, align 1
  %seen1 = or i64 %seen, %word
  %k1 = add i64 %k, 8
  br label %head
tail:
  %t = phi i64 [%k, %head], [%t1, %last]
  %all = phi i64 [%seen, %head], [%all1, %last]
  %rest = icmp slt i64 %t, %bytes
  br i1 %rest, label %last, label %done
last:
  {field("%q", "%data", "%t")}
  %byte = load i8, ptr %q
  %wide = zext i8 %byte to i64
  %all1 = or i64 %all, %wide
  %t1 = add i64 %t, 1
  br label %tail
done:
  %others = and i64 %all, {0xFEFEFEFEFEFEFEFE - (1 << 64)}
  %fine = icmp eq i64 %others, 0
  ret i1 %fine
}}"""

DROP: Final = f"""
define internal void @drop(ptr %objects, i64 %count) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [0, %entry], [%k1, %body]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %done
body:
  {item("%o", "ptr", "%objects", "%k")}
  call void @Py_DecRef(ptr %o)
  %k1 = add i64 %k, 1
  br label %head
done:
  ret void
}}"""

FIND: Final = f"""
define internal ptr @find(ptr %record, ptr %args, ptr %outs, i64 %count) nounwind {{
entry:
  {loaded("%inputs", "i64", "%record", 8 * INPUTS)}
  {loaded("%bindings", "ptr", "%record", 8 * BINDINGS)}
  %now = load i64, ptr @settings_version
  {field("%parameters", "%record", 8 * PARAMETERS)}
  br label %head
head:
  %b = phi i64 [0, %entry], [%b1, %again]
  {item("%binding", "ptr", "%bindings", "%b")}
  %end = icmp eq ptr %binding, null
  br i1 %end, label %none, label %try
again:
  %b1 = add i64 %b, 1
  br label %head
try:
  {loaded("%then", "i64", "%binding", 8 * BINDING_VERSION)}
  {loaded("%extents0", "ptr", "%binding", 8 * EXTENTS)}
  {loaded("%bytes", "ptr", "%binding", 8 * BYTES)}
  %current = icmp eq i64 %then, %now
  br i1 %current, label %next, label %again
next:
  %k = phi i64 [0, %try], [%k1, %plain], [%k1, %scan]
  %extents = phi ptr [%extents0, %try], [%extents1, %plain], [%extents1, %scan]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %found
look:
  %is_input = icmp slt i64 %k, %inputs
  %j = sub i64 %k, %inputs
  %array = select i1 %is_input, ptr %args, ptr %outs
  %at = select i1 %is_input, i64 %k, i64 %j
  {item("%o", "ptr", "%array", "%at")}
  %words = mul i64 %k, {8 * PARAMETER_WORDS}
  {field("%parameter", "%parameters", "%words")}
  {loaded("%rank", "i64", "%parameter", 8 * RANK)}
  {loaded("%is_bool", "i64", "%parameter", 8 * IS_BOOL)}
  %equal = call i1 @same(ptr %o, ptr %extents, i64 %rank)
  br i1 %equal, label %plain, label %again
plain:
  %extents1 = getelementptr i64, ptr %extents, i64 %rank
  %k1 = add i64 %k, 1
  %scans = icmp ne i64 %is_bool, 0
  br i1 %scans, label %scan, label %next
scan:
  {item("%size", "i64", "%bytes", "%k")}
  %bits = call i1 @bools(ptr %o, i64 %size)
  br i1 %bits, label %next, label %none
found:
  ret ptr %binding
none:
  ret ptr null
}}"""

DISJOINT: Final = f"""
define internal i1 @apart(ptr %args, i64 %inputs, ptr %outs, i64 %count, ptr %bytes) nounwind {{
entry:
  br label %outer
outer:
  %j = phi i64 [0, %entry], [%j1, %done]
  %others = add i64 %inputs, %j
  %more = icmp slt i64 %j, %count
  br i1 %more, label %first, label %yes
first:
  {item("%o", "ptr", "%outs", "%j")}
  {loaded("%begin", "i64", "%o", ARRAY_DATA)}
  {item("%size", "i64", "%bytes", "%others")}
  %end = add i64 %begin, %size
  br label %inner
inner:
  %k = phi i64 [0, %first], [%k1, %next]
  %pairs = icmp slt i64 %k, %others
  br i1 %pairs, label %pair, label %done
done:
  %j1 = add i64 %j, 1
  br label %outer
pair:
  %is_input = icmp slt i64 %k, %inputs
  %i = sub i64 %k, %inputs
  %array = select i1 %is_input, ptr %args, ptr %outs
  %at = select i1 %is_input, i64 %k, i64 %i
  {item("%p", "ptr", "%array", "%at")}
  {loaded("%begin2", "i64", "%p", ARRAY_DATA)}
  {item("%size2", "i64", "%bytes", "%k")}
  %end2 = add i64 %begin2, %size2
  %a = icmp ult i64 %begin, %end2
  %b = icmp ult i64 %begin2, %end
  %both = and i1 %a, %b
  br i1 %both, label %no, label %next
next:
  %k1 = add i64 %k, 1
  br label %inner
yes:
  ret i1 true
no:
  ret i1 false
}}"""

FUNCTIONS: Final = (FITS, SAME, BOOLS, DROP, FIND, DISJOINT)
