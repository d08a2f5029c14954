"""What bad ONNX models say: whole texts, from a process with 2 GB of memory and 60 s."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Final

import pytest

pytest.importorskip("onnx")

from tests.interop.onnx.bad import CASES, HEAVY

pytestmark = pytest.mark.interop
SAID: Final = {
    "truncated": (
        "the bytes cannot be parsed: Error parsing message with type 'onnx.ModelProto': "
        "Wire format was corrupt.\n"
        "  hint: it is damaged, cut off, too large for the memory there is, or no ONNX "
        "model."
    ),
    "not_a_protobuf": (
        "the bytes cannot be parsed: Error parsing message with type 'onnx.ModelProto': "
        "Wire format was corrupt.\n"
        "  hint: it is damaged, cut off, too large for the memory there is, or no ONNX "
        "model."
    ),
    "empty": ("the model has no graph.\n  hint: it is damaged, or no ONNX model."),
    "missing_file": (
        "the file 'no/such/model.onnx' cannot be read: [Errno 2] No such file or "
        "directory: 'no/such/model.onnx'."
    ),
    "another_object": (
        'a model is a path, bytes or a ModelProto, got int.\n  hint: write load("model.onnx").'
    ),
    "no_text": ("node 0 has a name that is no text (UTF-8)."),
    "cycle": (
        "'b' is read before it is made.\n"
        "  in: node 'first' (Add) of the model, before node 'second' (Relu)\n"
        "  hint: nodes stand in the order they run in, and in no circle."
    ),
    "missing_initialiser": (
        "'weight' is read, but nothing makes it: no input, initialiser or node.\n"
        "  in: node 0 (MatMul) of the model\n"
        "  hint: the file is damaged, or was cut out of a larger model."
    ),
    "duplicate_name": (
        "'y' is made twice.\n"
        "  in: node 'first' (Relu) and node 'second' (Abs) of the model\n"
        "  hint: every name of a graph stands for one value."
    ),
    "duplicate_initialiser": ("the model has two initialisers 'w'."),
    "nothing_makes_output": ("nothing makes the output 'logits' of the model."),
    "negative_extent": ("input 'x' has a negative extent in (2, -3)."),
    "enormous_extent": (
        "input 'x' of shape (4611686018427387904, 4) has more than 2^40 elements.\n"
        "  hint: its extents are wrong, or the file is damaged."
    ),
    "enormous_initialiser": (
        "initialiser 'w' of shape (4611686018427387904,) has more than 2^40 elements.\n"
        "  hint: its extents are wrong, or the file is damaged."
    ),
    "short_initialiser": (
        "initialiser 'w' of shape (3,) needs 12 bytes, but has 4.\n"
        "  hint: the file is damaged, or was cut off."
    ),
    "types_that_differ": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Add): input 1 must be tensor(float) like another input, not "
        "tensor(double)."
    ),
    "type_not_taken": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Erf): input 0 must not be tensor(bool) in version 13."
    ),
    "wrong_number_of_inputs": (
        "1 node of the model cannot be imported.\n  in: node 0 (Add): it takes 2 inputs, not 1."
    ),
    "unknown_attribute": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Relu): it has no attribute 'slope' in version 14."
    ),
    "wrong_kind_of_attribute": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Softmax): attribute 'axis' must be INT, not FLOAT."
    ),
    "missing_attribute": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Concat): it needs the attribute 'axis'."
    ),
    "wrong_shapes": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (MatMul): @ contracts axes of different extents 3 and 4.\n"
        "  hint: transpose one operand."
    ),
    "unknown_domain": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (com.example.FusedConv): operators of the domain 'com.example' are "
        "not known.\n"
        "  hint: write these parts with tensorad.topi, or by formulas."
    ),
    "unknown_operator": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Frobnicate): ONNX has no such operator in version 18."
    ),
    "future": (
        "the model needs version 999 of ONNX's operators.\n"
        "  in: the package onnx that is installed has versions 1 to 28\n"
        "  hint: install a newer onnx."
    ),
    "old_softmax": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Softmax): its version 11 is older than those that are imported.\n"
        "  hint: convert the model to version 13 or later (onnx.version_converter)."
    ),
    "all_at_once": (
        "3 nodes of the model cannot be imported.\n"
        "  in: node 'quantise' (DynamicQuantizeLinear): quantised kernels are not "
        "imported.\n"
        "      node 1 (Unique): the shape of its output depends on data.\n"
        "      node 2 (StringSplit): there are no strings here.\n"
        "  hint: write these parts with tensorad.topi, or by formulas."
    ),
    "half_precision": (
        "3 nodes of the model cannot be imported.\n"
        "  in: node 0 (Relu): it reads float16, of which there is no arithmetic here.\n"
        "      node 1 (Mul): it reads float16, of which there is no arithmetic here.\n"
        "      node 2 (Cast): it reads float16, of which there is no arithmetic here.\n"
        "  hint: convert the model to float32 and int64."
    ),
    "a_sequence": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Relu): it reads a sequence, of which there is no arithmetic here.\n"
        "  hint: convert the model to float32 and int64."
    ),
    "shape_from_data": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Reshape): its input 1, 's', decides about shapes, but is computed "
        "from data.\n"
        "  hint: give a model input a value while importing: load(path, constants={name: "
        "array})."
    ),
    "nonzero_of_data": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (NonZero): its input 0, 'x', decides about shapes, but is computed "
        "from data.\n"
        "  hint: give a model input a value while importing: load(path, constants={name: "
        "array})."
    ),
    "branch_on_data": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (If): its input 0, 'c', decides about shapes, but is computed from "
        "data.\n"
        "  hint: give a model input a value while importing: load(path, constants={name: "
        "array})."
    ),
    "loop": (
        "1 node of the model cannot be imported.\n"
        "  in: node 'loop' (Loop): loops that a graph runs in calls are not imported.\n"
        "  hint: write these parts with tensorad.topi, or by formulas."
    ),
    "calls_itself": (
        "functions and branches lie more than 32 deep inside of each other.\n"
        "  hint: a function must not call itself."
    ),
    "huge_constant_of_shape": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (ConstantOfShape): a tensor of shape (2147483648, 2147483648) has "
        "more than 2^40 elements.\n"
        "  hint: its extents are wrong, or the file is damaged."
    ),
    "huge_expand": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Expand): its output of shape (35184372088832,) has more than 2^40 "
        "elements.\n"
        "  hint: its extents are wrong, or the file is damaged."
    ),
    "huge_range": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Range): its output of shape (1125899906842624,) has more than 2^40 "
        "elements.\n"
        "  hint: its extents are wrong, or the file is damaged."
    ),
    "huge_tile": (
        "1 node of the model cannot be imported.\n"
        "  in: node 0 (Tile): its output of shape (9223372036854775808,) has more than "
        "2^40 elements.\n"
        "  hint: its extents are wrong, or the file is damaged."
    ),
    "folds_without_end": (
        "more than 33,554,432 elements would be computed while importing.\n"
        "  hint: the model computes large arrays of constants alone: store them in it."
    ),
    "external_good": ("loaded: parameters [1.0, 2.0]"),
    "external_not_asked_for": (
        "initialiser 'w' lies in the file 'good.bin', which was not asked for.\n"
        "  hint: tell the folder of such files: load(path, external_data=folder)."
    ),
    "external_parent": (
        "initialiser 'w' lies in the file '../secret', which is not inside of the folder.\n"
        "  hint: external data are named by a path below the folder, without '..'."
    ),
    "external_absolute": (
        "initialiser 'w' lies in the file 'ROOT/secret', which is not inside of the "
        "folder.\n"
        "  hint: external data are named by a path below the folder, without '..'."
    ),
    "external_link": (
        "initialiser 'w' lies in the file 'link.bin', which is a link, or behind one.\n"
        "  hint: put the file itself into the folder."
    ),
    "external_linked_folder": (
        "initialiser 'w' lies in the file 'up/secret', which is a link, or behind one.\n"
        "  hint: put the file itself into the folder."
    ),
    "external_folder": (
        "initialiser 'w' cannot be read: [Errno 21] Is a directory: 'ROOT/weights'."
    ),
    "external_missing": (
        "initialiser 'w' cannot be read: [Errno 2] No such file or directory: "
        "'ROOT/weights/none.bin'."
    ),
    "external_past_the_end": (
        "initialiser 'w' is said to be bytes 4 to 12 of 'good.bin', which has 8.\n"
        "  hint: the file is damaged, or another one."
    ),
    "external_negative": ("initialiser 'w': offset '-4' of its file is no number of bytes."),
}
"""By case; of errors of the class OnnxError."""
HEAVY_SAID: Final = {
    "million_nodes": "a graph has 1,000,000 nodes, more than 50,000.\n"
    "  hint: cut the model into several.",
    "many_nodes": "loaded: a model with 1 output",
    "grows_without_end": "the model has more than 50,000 nodes, those of functions included.\n"
    "  hint: cut it into several models.",
}


def said_by(*names: str) -> dict[str, str]:
    """What cases say, in a process of their own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.interop.onnx.bad", *names]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    found: dict[str, str] = json.loads(made.stdout)
    return {name: text.removeprefix("OnnxError: ") for name, text in found.items()}


@cache
def light() -> dict[str, str]:
    return said_by(*[name for name in CASES if name not in HEAVY])


def test_every_case_has_its_text() -> None:
    assert {*SAID, *HEAVY} == set(CASES)


@pytest.mark.parametrize("name", SAID)
def test_bad_models_are_refused_in_words(name: str) -> None:
    assert light()[name] == SAID[name]


@pytest.mark.parametrize("name", HEAVY_SAID)
def test_large_models_are_read_within_limits(name: str) -> None:
    assert said_by(name)[name] == HEAVY_SAID[name]


def test_a_gigabyte_in_one_name_is_refused() -> None:
    text = said_by("long_name")["long_name"]
    assert text.startswith("the file '") and "cannot be parsed: " in text
    assert text.endswith("too large for the memory there is, or no ONNX model.")
