"""The native entry of compiled functions, as LLVM IR: checks of arrays, then the driver.

One function serves all: it reads what is allowed from tables. Whatever it does not expect it
hands to the Python path with the same arguments. What stopped a call is raised by its code.
"""

from __future__ import annotations

from typing import Final

from tensorad.codegen.entry import checks_ir as words
from tensorad.codegen.entry.checks_ir import FUNCTIONS, item
from tensorad.codegen.llvm.call_block import SLOTS, field, loaded, stored
from tensorad.codegen.threads.signals_ir import INTERRUPTED

IMPORTS: Final = {
    "PyObject_Vectorcall": "ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "PyMethod_New": "ptr @PyMethod_New(ptr, ptr)",
    "PyList_New": "ptr @PyList_New(i64)",
    "PyList_SetItem": "i32 @PyList_SetItem(ptr, i64, ptr)",
    "PyLong_FromLongLong": "ptr @PyLong_FromLongLong(i64)",
    "Py_IncRef": "void @Py_IncRef(ptr)",
    "Py_DecRef": "void @Py_DecRef(ptr)",
}
"""What the text calls of Python itself."""


def stub_text(record_offset: int) -> str:
    """The module: @call(callable, args, nargsf, kwnames).

    Args:
        record_offset: where a callable has the address of its record (0: none).
    """
    return "\n".join([_DECLARATIONS, *FUNCTIONS, _call(record_offset)])


_DECLARATIONS: Final = "\n".join(
    [
        *[f"declare {function}" for function in IMPORTS.values()],
        "declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
        "declare i64 @run(ptr)",
        "declare i64 @released(ptr)",
        "declare ptr @take(ptr)",
        "declare i64 @ended(ptr, ptr, i64)",
        *[
            f"@{name} = external global i8"
            for name in ("ndarray", "list", "tuple", "none", "out_name", "slow", "failed")
        ],
        "@settings_version = external global i64",
    ]
)


def _call(record_offset: int) -> str:
    return f"""
define ptr @call(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) nounwind {{
entry:
  %outs = alloca [{words.MAX_OUTPUTS} x ptr]
  %told = alloca [2 x ptr]
  {loaded("%record", "ptr", "%self", record_offset)}
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %slow, label %known
{_ARGUMENTS}
{_GIVEN}
{_RUN}
{_RESULTS}
slow:
  %method = call ptr @PyMethod_New(ptr @slow, ptr %self)
  %failed = icmp eq ptr %method, null
  br i1 %failed, label %error, label %python
python:
  %answer = call ptr @PyObject_Vectorcall(ptr %method, ptr %args, i64 %nargsf, ptr %kwnames)
  call void @Py_DecRef(ptr %method)
  ret ptr %answer
error:
  ret ptr null
}}"""


_ARGUMENTS: Final = f"""known:
  {loaded("%inputs", "i64", "%record", 8 * words.INPUTS)}
  {loaded("%outputs", "i64", "%record", 8 * words.OUTPUTS)}
  {field("%parameters", "%record", 8 * words.PARAMETERS)}
  %n = and i64 %nargsf, {(1 << 63) - 1}
  %right = icmp eq i64 %n, %inputs
  br i1 %right, label %counted, label %slow
counted:
  %plain = icmp eq ptr %kwnames, null
  br i1 %plain, label %begin, label %keyword
keyword:
  {loaded("%names", "i64", "%kwnames", words.HEAD)}
  %one = icmp eq i64 %names, 1
  br i1 %one, label %named, label %slow
named:
  {loaded("%name", "ptr", "%kwnames", words.TUPLE_ITEMS)}
  %is_out = icmp eq ptr %name, @out_name
  {item("%value", "ptr", "%args", "%n")}
  %is_none = icmp eq ptr %value, @none
  %given0 = select i1 %is_none, ptr null, ptr %value
  br i1 %is_out, label %begin, label %slow
begin:
  %given = phi ptr [null, %counted], [%given0, %named]
  br label %check
check:
  %i = phi i64 [0, %begin], [%i1, %input]
  %words = mul i64 %i, {8 * words.PARAMETER_WORDS}
  {field("%parameter", "%parameters", "%words")}
  %inside = icmp slt i64 %i, %inputs
  br i1 %inside, label %input, label %checked
input:
  {item("%o", "ptr", "%args", "%i")}
  %i1 = add i64 %i, 1
  %fits = call i1 @fits(ptr %o, ptr %parameter)
  br i1 %fits, label %check, label %slow
checked:
  %allocate = icmp eq ptr %given, null
  br i1 %allocate, label %bind, label %take_given"""

_GIVEN: Final = f"""take_given:
  {loaded("%type", "ptr", "%given", words.HEAD - 8)}
  %is_array = icmp eq ptr %type, @ndarray
  br i1 %is_array, label %bare, label %several
bare:
  store ptr %given, ptr %outs
  br label %items
several:
  {loaded("%length", "i64", "%given", words.HEAD)}
  %is_list = icmp eq ptr %type, @list
  %is_tuple = icmp eq ptr %type, @tuple
  %sequence = or i1 %is_list, %is_tuple
  br i1 %sequence, label %sized, label %slow
sized:
  br i1 %is_list, label %of_list, label %of_tuple
of_list:
  {loaded("%listed", "ptr", "%given", words.LIST_ITEMS)}
  br label %items
of_tuple:
  {field("%held", "%given", words.TUPLE_ITEMS)}
  br label %items
items:
  %from = phi ptr [%outs, %bare], [%listed, %of_list], [%held, %of_tuple]
  %found = phi i64 [1, %bare], [%length, %of_list], [%length, %of_tuple]
  %enough = icmp eq i64 %found, %outputs
  br i1 %enough, label %output, label %slow
output:
  %j = phi i64 [0, %items], [%j1, %fine]
  %jn = add i64 %j, %inputs
  %jwords = mul i64 %jn, {8 * words.PARAMETER_WORDS}
  {field("%jparameter", "%parameters", "%jwords")}
  %jmore = icmp slt i64 %j, %outputs
  br i1 %jmore, label %one_output, label %bind
one_output:
  {item("%target", "ptr", "%from", "%j")}
  %place = getelementptr ptr, ptr %outs, i64 %j
  store ptr %target, ptr %place
  %suits = call i1 @fits(ptr %target, ptr %jparameter)
  br i1 %suits, label %fine, label %slow
fine:
  %j1 = add i64 %j, 1
  br label %output
bind:
  %all = add i64 %inputs, %outputs
  %count = select i1 %allocate, i64 %inputs, i64 %all
  %binding = call ptr @find(ptr %record, ptr %args, ptr %outs, i64 %count)
  %unbound = icmp eq ptr %binding, null
  br i1 %unbound, label %slow, label %bound
bound:
  {loaded("%bytes", "ptr", "%binding", 8 * words.BYTES)}
  {loaded("%allocates", "i64", "%binding", 8 * words.ALLOCATES)}
  {loaded("%plan", "ptr", "%binding", 8 * words.FRAMES)}
  {loaded("%releases", "i64", "%binding", 8 * words.RELEASES)}
  {loaded("%extents", "ptr", "%binding", 8 * words.MADE_EXTENTS)}
  br i1 %allocate, label %may_allocate, label %overlap
may_allocate:
  %may = icmp ne i64 %allocates, 0
  br i1 %may, label %reserve, label %slow
overlap:
  %apart = call i1 @apart(ptr %args, i64 %inputs, ptr %outs, i64 %outputs, ptr %bytes)
  br i1 %apart, label %reserve, label %slow
reserve:
  %frame = call ptr @take(ptr %plan)
  %lacking = icmp eq ptr %frame, null
  br i1 %lacking, label %slow, label %prepare"""

_NEW_ARGUMENTS: Final = (
    "ptr @ndarray, ptr %mdtype, i32 %mrank32, ptr %mwalk, ptr null, ptr null, i32 0, ptr null"
)
_RUN: Final = f"""prepare:
  {loaded("%slots", "ptr", "%frame", 8 * SLOTS)}
  br label %fill
fill:
  %s = phi i64 [0, %prepare], [%s1, %filling]
  %smore = icmp slt i64 %s, %inputs
  br i1 %smore, label %filling, label %filled
filling:
  {item("%so", "ptr", "%args", "%s")}
  {loaded("%sdata", "ptr", "%so", words.ARRAY_DATA)}
  %splace = getelementptr ptr, ptr %slots, i64 %s
  store ptr %sdata, ptr %splace
  %s1 = add i64 %s, 1
  br label %fill
filled:
  %results = getelementptr ptr, ptr %slots, i64 %inputs
  br i1 %allocate, label %own, label %hold
hold:
  %h = phi i64 [0, %filled], [%h1, %keep]
  %hmore = icmp slt i64 %h, %outputs
  br i1 %hmore, label %keep, label %start
keep:
  {item("%kept", "ptr", "%outs", "%h")}
  call void @Py_IncRef(ptr %kept)
  {loaded("%hdata", "ptr", "%kept", words.ARRAY_DATA)}
  %hslot = getelementptr ptr, ptr %results, i64 %h
  store ptr %hdata, ptr %hslot
  %h1 = add i64 %h, 1
  br label %hold
own:
  %m = phi i64 [0, %filled], [%m1, %owned]
  %mwalk = phi ptr [%extents, %filled], [%mwalk1, %owned]
  %mmore = icmp slt i64 %m, %outputs
  br i1 %mmore, label %new, label %start
new:
  %mn = add i64 %m, %inputs
  %mwords = mul i64 %mn, {8 * words.PARAMETER_WORDS}
  {field("%mparameter", "%parameters", "%mwords")}
  {loaded("%mrank", "i64", "%mparameter", 8 * words.RANK)}
  {loaded("%mdtype", "ptr", "%mparameter", 8 * words.DTYPE)}
  %mrank32 = trunc i64 %mrank to i32
  call void @Py_IncRef(ptr %mdtype)
  %array = call ptr @new_array({_NEW_ARGUMENTS})
  %mplace = getelementptr ptr, ptr %outs, i64 %m
  store ptr %array, ptr %mplace
  %no_memory = icmp eq ptr %array, null
  br i1 %no_memory, label %undo, label %owned
undo:
  %unused = call i64 @ended(ptr %plan, ptr %frame, i64 0)
  call void @drop(ptr %outs, i64 %m)
  ret ptr null
owned:
  {loaded("%mdata", "ptr", "%array", words.ARRAY_DATA)}
  %mslot = getelementptr ptr, ptr %results, i64 %m
  store ptr %mdata, ptr %mslot
  %mwalk1 = getelementptr i64, ptr %mwalk, i64 %mrank
  %m1 = add i64 %m, 1
  br label %own
start:
  %long = icmp ne i64 %releases, 0
  br i1 %long, label %release, label %short
short:
  %r0 = call i64 @run(ptr %frame)
  %code0 = call i64 @ended(ptr %plan, ptr %frame, i64 %r0)
  %good0 = icmp eq i64 %code0, 0
  br i1 %good0, label %finish, label %refused
release:
  {loaded("%owner", "ptr", "%binding", 8 * words.OWNER)}
  call void @Py_IncRef(ptr %owner)
  %r1 = call i64 @released(ptr %frame)
  %code1 = call i64 @ended(ptr %plan, ptr %frame, i64 %r1)
  %good1 = icmp eq i64 %code1, 0
  br i1 %good1, label %let_go, label %refused
let_go:
  call void @Py_DecRef(ptr %owner)
  br label %finish
refused:
  %code = phi i64 [%code0, %short], [%code1, %release]
  %lent = phi ptr [null, %short], [%owner, %release]
  %raised = icmp eq i64 %code, {INTERRUPTED}
  br i1 %raised, label %over, label %explain
explain:
  {loaded("%binder", "ptr", "%binding", 8 * words.OWNER)}
  %number = call ptr @PyLong_FromLongLong(i64 %code)
  %nothing = icmp eq ptr %number, null
  br i1 %nothing, label %over, label %say
say:
  store ptr %binder, ptr %told
  {stored("ptr %number", "%second", "%told", 8)}
  %never = call ptr @PyObject_Vectorcall(ptr @failed, ptr %told, i64 2, ptr null)
  call void @Py_DecRef(ptr %number)
  br label %over
over:
  call void @drop(ptr %outs, i64 %outputs)
  call void @Py_DecRef(ptr %lent)
  ret ptr null"""

_RESULTS: Final = f"""finish:
  %single = icmp eq i64 %outputs, 1
  br i1 %single, label %alone, label %pack
alone:
  %only = load ptr, ptr %outs
  ret ptr %only
pack:
  %answers = call ptr @PyList_New(i64 %outputs)
  %full = icmp eq ptr %answers, null
  br i1 %full, label %give_up, label %packing
give_up:
  call void @drop(ptr %outs, i64 %outputs)
  ret ptr null
packing:
  %q = phi i64 [0, %pack], [%q1, %set]
  %qmore = icmp slt i64 %q, %outputs
  br i1 %qmore, label %set, label %packed
set:
  {item("%answer0", "ptr", "%outs", "%q")}
  %status = call i32 @PyList_SetItem(ptr %answers, i64 %q, ptr %answer0)
  %q1 = add i64 %q, 1
  br label %packing
packed:
  ret ptr %answers"""
