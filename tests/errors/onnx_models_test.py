"""Models that are wrong or need what is missing: each gets a UserError that
names the node, says why, and what to try."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

BUILD = Path(os.environ.get("KNAPPER_BUILD", "build/dev")).resolve()
PROGRAM = BUILD / "tools" / "knapper-translate" / "knapper-translate"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)


def model(nodes, inputs=(("x", FLOAT, ["n", 4]),), outputs=(("y", FLOAT, None),),
          initializers=(), opset=21, **more):  # fmt: skip
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        list(initializers),
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(*o) for o in more.pop("opsets", [("", opset)])],
        ir_version=10,
        **more,
    )


def constant(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def external(location, **more):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return model([node("Add", ["x", "w"], ["y"])], initializers=[tensor])


def recursive():
    function = helper.make_function(
        "f", "Self", ["a"], ["b"], [node("Self", ["a"], ["b"], domain="f")],
        [helper.make_opsetid("f", 1)],
    )  # fmt: skip
    return model([node("Self", ["x"], ["y"], domain="f", name="start")],
                 functions=[function], opsets=[("", 21), ("f", 1)])  # fmt: skip


def exponential():
    """40 functions, each calling the next one twice."""
    functions = [
        helper.make_function(
            "f", f"F{i}", ["a"], ["b"],
            [node(f"F{i + 1}", ["a"], ["m"], domain="f"),
             node(f"F{i + 1}", ["m"], ["b"], domain="f")],
            [helper.make_opsetid("f", 1)],
        )
        for i in range(40)
    ]  # fmt: skip
    functions.append(
        helper.make_function("f", "F40", ["a"], ["b"], [node("Relu", ["a"], ["b"])],
                             [helper.make_opsetid("", 21)])
    )  # fmt: skip
    return model([node("F0", ["x"], ["y"], domain="f")], functions=functions,
                 opsets=[("", 21), ("f", 1)])  # fmt: skip


def with_raw(tensor_bytes, dims):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims, raw_data=tensor_bytes)
    return model([node("Add", ["x", "w"], ["y"])], initializers=[tensor])


def body(nodes, inputs, outputs):
    """A subgraph; names stand for float tensors, (name, type) for scalars of that type."""
    def info(name):
        return helper.make_tensor_value_info(
            *((name, FLOAT, None) if isinstance(name, str) else (*name, [])))  # fmt: skip

    return helper.make_graph(list(nodes), "b", [info(i) for i in inputs], [info(o) for o in outputs])


def branch(yes, no, condition=(("c", TensorProto.BOOL, []),), **more):
    return model(
        [node("If", ["c"], ["y"], name="if", then_branch=yes, else_branch=no)],
        inputs=[("x", FLOAT, ["n", 4]), *condition], **more,
    )  # fmt: skip


TURN = [("i", INT64), ("c", TensorProto.BOOL)]
SAME = [node("Identity", ["c"], ["d"])]


def loop(nodes, carried=("v",), outputs=(), inputs=("three", "", "x"), results=("y",), **more):
    made = body(nodes, [*TURN, *carried], [("d", TensorProto.BOOL), *outputs])
    return model([node("Loop", list(inputs), list(results), name="loop", body=made)],
                 initializers=[constant("three", 3)], **more)  # fmt: skip


def scan(**attributes):
    made = body([node("Add", ["s", "e"], ["t"])], ["s", "e"], ["t"])
    return model(
        [node("Scan", ["s0", "x"], ["y"], name="scan", body=made, **attributes)],
        inputs=[("x", FLOAT, ["n", 4]), ("s0", FLOAT, [4])],
    )


def lstm(weights=(1, 20, 4), state=(1, 20, 5), rank=("t", "b", 4), **attributes):
    return model(
        [node("LSTM", ["x", "w", "r"], ["y"], name="lstm", **attributes)],
        inputs=[("x", FLOAT, list(rank)), ("w", FLOAT, list(weights)), ("r", FLOAT, list(state))],
    )


def sequence(*nodes, result="y"):
    return model([node("SequenceConstruct", ["x", "x"], ["s"]), *nodes],
                 outputs=[(result, FLOAT, None)],
                 initializers=[constant("five", 5), constant("one", 1)])  # fmt: skip


# name: (model, what the message holds)
def mixed(op, shapes, odd, **attributes):
    """An operator of float inputs, one of which is of integers."""
    inputs = [(f"i{i}", TensorProto.INT32 if i == odd else FLOAT, s) for i, s in enumerate(shapes)]
    return model([node(op, [i[0] for i in inputs], ["y"], name="o", **attributes)], inputs=inputs)


CASES = {
    "unknown_operator": (
        model([node("Relu", ["x"], ["a"]), node("Frobnicate", ["a"], ["b"], name="f1"),
               node("Sparkle", ["b"], ["c"], name="s1"),
               node("Frobnicate", ["x"], ["d"], name="f2"),
               node("Add", ["c", "d"], ["y"])]),
        ["Frobnicate (ai.onnx opset 21)", "2 nodes: 'f1', 'f2'", "Sparkle", "try:"]),
    "unknown_domain_operator": (
        model([node("Fuse", ["x"], ["y"], domain="com.example")],
              opsets=[("", 21), ("com.example", 3)]),
        ["Fuse (com.example opset 3)"]),
    "domain_not_imported": (
        model([node("Fuse", ["x"], ["y"], domain="com.example", name="n1")]),
        ["'n1' (Fuse)", "com.example", "opset_import"]),
    "undefined_name": (
        model([node("Add", ["x", "nowhere"], ["y"], name="sum")]),
        ["'sum' (Add)", "'nowhere'", "nothing defines"]),
    "cycle": (
        model([node("Add", ["x", "b"], ["a"], name="first"),
               node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]),
        ["'first' (Add)", "cycle"]),
    "defined_twice": (
        model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"], name="again")]),
        ["'again' (Neg)", "second time"]),
    "shapes_do_not_broadcast": (
        model([node("Add", ["x", "z"], ["y"], name="sum")],
              inputs=[("x", FLOAT, ["n", 4]), ("z", FLOAT, [5])]),
        ["'sum' (Add)", "[n, 4], [5]", "broadcast"]),
    "element_types_differ": (
        model([node("Add", ["x", "z"], ["y"], name="sum")],
              inputs=[("x", FLOAT, [4]), ("z", INT64, [4])]),
        ["'sum' (Add)", "4xf32, 4xi64"]),
    "matmul_sizes": (
        model([node("MatMul", ["x", "z"], ["y"], name="matmul")],
              inputs=[("x", FLOAT, ["n", 4]), ("z", FLOAT, [5, 6])]),
        ["'matmul' (MatMul)", "4", "5"]),
    "reshape_count": (
        model([node("Reshape", ["x", "s"], ["y"], name="r")],
              inputs=[("x", FLOAT, [3, 4])], initializers=[constant("s", [5, -1])]),
        ["'r' (Reshape)", "12", "5"]),
    "two_open_dims": (
        model([node("Reshape", ["x", "s"], ["y"], name="r")],
              initializers=[constant("s", [-1, -1])]),
        ["'r' (Reshape)", "-1 twice"]),
    "axis_outside": (
        model([node("Softmax", ["x"], ["y"], axis=2, name="s")]),
        ["'s' (Softmax)", "axis 2 is outside rank 2"]),
    "attribute_kind": (
        model([node("Softmax", ["x"], ["y"], axis="one", name="s")]),
        ["'s' (Softmax)", "'axis'", "kind"]),
    "too_many_inputs": (
        model([node("Relu", ["x", "x"], ["y"], name="r")]),
        ["'r' (Relu)", "2 inputs where it takes 1"]),
    "missing_input": (
        model([node("Add", ["x", ""], ["y"], name="a")]),
        ["'a' (Add)", "inputs where it takes 2"]),
    "absent_input": (
        model([node("Add", ["", "x"], ["y"], name="a")]),
        ["'a' (Add)", "input 0 is absent", "the first 2"]),
    "bad_permutation": (
        model([node("Transpose", ["x"], ["y"], perm=[0, 0], name="t")]),
        ["'t' (Transpose)", "permutation"]),
    "filter_channels": (
        model([node("Conv", ["x", "w"], ["y"], name="c")],
              inputs=[("x", FLOAT, ["n", 4, 8, 8]), ("w", FLOAT, [2, 3, 3, 3])]),
        ["'c' (Conv)", "4"]),
    "image_smaller_than_block": (
        model([node("Col2Im", ["x", "i", "b"], ["y"], name="c")],
              inputs=[("x", FLOAT, ["n", 9, 1])],
              initializers=[constant("i", [4, 2]), constant("b", [3, 3])]),
        ["'c' (Col2Im)", "image dim 1 of 2", "block of 3"]),
    "block_count": (
        model([node("Col2Im", ["x", "i", "b"], ["y"], name="c")],
              inputs=[("x", FLOAT, ["n", 9, 5])],
              initializers=[constant("i", [4, 4]), constant("b", [3, 3])]),
        ["'c' (Col2Im)", "nx9x5xf32 should be 4"]),
    "block_channels": (
        model([node("Col2Im", ["x", "i", "b"], ["y"], name="c")],
              inputs=[("x", FLOAT, ["n", 8, 4])],
              initializers=[constant("i", [4, 4]), constant("b", [3, 3])]),
        ["'c' (Col2Im)", "8 channels", "block_shape"]),
    "block_dims": (
        model([node("Col2Im", ["x", "i", "b"], ["y"], name="c")],
              inputs=[("x", FLOAT, ["n", 9, 4])],
              initializers=[constant("i", [4, 4, 4]), constant("b", [3, 3])]),
        ["'c' (Col2Im)", "3 image and 2 block dims"]),
    "block_strides": (
        model([node("Col2Im", ["x", "i", "b"], ["y"], name="c", strides=[0, 1])],
              inputs=[("x", FLOAT, ["n", 9, 4])],
              initializers=[constant("i", [4, 4]), constant("b", [3, 3])]),
        ["'c' (Col2Im)", "strides"]),
    "block_of_booleans": (
        model([node("Col2Im", ["x", "i", "b"], ["y"], name="c")],
              inputs=[("x", TensorProto.BOOL, ["n", 9, 4])],
              outputs=[("y", TensorProto.BOOL, None)],
              initializers=[constant("i", [4, 4]), constant("b", [3, 3])]),
        ["Col2Im (ai.onnx opset 21)", "element type BOOL", "'c'"]),
    "grid_sizes": (
        model([node("AffineGrid", ["x", "s"], ["y"], name="g")],
              inputs=[("x", FLOAT, ["n", 2, 3])],
              initializers=[constant("s", [1, 3, 4])]),
        ["'g' (AffineGrid)", "3 sizes", "[N, 3, 4] for [N, C, D, H, W]"]),
    "grid_theta": (
        model([node("AffineGrid", ["x", "s"], ["y"], name="g")],
              inputs=[("x", FLOAT, ["n", 3, 4])],
              initializers=[constant("s", [1, 3, 4, 4])]),
        ["'g' (AffineGrid)", "x3x4xf32", "should be 2"]),
    "grid_of_integers": (
        model([node("AffineGrid", ["x", "s"], ["y"], name="g")],
              inputs=[("x", INT64, ["n", 2, 3])], outputs=[("y", INT64, None)],
              initializers=[constant("s", [1, 3, 4, 4])]),
        ["'g' (AffineGrid)", "theta is", "float"]),
    "seen_as_another_width": (
        model([node("BitCast", ["x"], ["y"], name="b", to=INT64)],
              outputs=[("y", INT64, None)], opset=26),
        ["'b' (BitCast)", "32 bits cannot be seen as 64 bits", "same width"]),
    "rounding_mode": (
        model([node("Cast", ["x"], ["y"], name="c", to=TensorProto.FLOAT8E8M0, round_mode="odd")],
              outputs=[("y", TensorProto.FLOAT8E8M0, None)], opset=25),
        ["'c' (Cast)", "round_mode is 'odd'", "up, down or nearest"]),
    "precision_of_quantisation": (
        model([node("QuantizeLinear", ["x", "s"], ["y"], name="q", precision=TensorProto.INT8)],
              outputs=[("y", TensorProto.UINT8, None)], opset=25,
              initializers=[constant("s", 1, np.float32)]),
        ["'q' (QuantizeLinear)", "precision is no type to divide in", "FLOAT16"]),
    "factors_of_float8": (
        model([node("QLinearMatMul", ["x", "s", "z", "x", "s", "z", "s", "z"], ["y"], name="q")],
              inputs=[("x", TensorProto.FLOAT8E4M3FN, [4, 4]), ("z", TensorProto.FLOAT8E4M3FN, [])],
              outputs=[("y", TensorProto.FLOAT8E4M3FN, None)],
              initializers=[constant("s", 1, np.float32)]),
        ["QLinearMatMul (ai.onnx opset 21)", "no 8-bit integers", "'q'"]),
    "arithmetic_on_float8": (
        model([node("Add", ["x", "x"], ["y"], name="a")],
              inputs=[("x", TensorProto.FLOAT8E5M2, [4])],
              outputs=[("y", TensorProto.FLOAT8E5M2, None)]),
        ["'a' (Add)", "f8E5M2", "element types"]),
    "arithmetic_on_strings": (
        model([node("Unique", ["x"], ["y"], name="u"), node("Pad", ["x", "p"], ["z"], name="p")],
              inputs=[("x", TensorProto.STRING, [4])], outputs=[("y", TensorProto.STRING, None)],
              initializers=[constant("p", [1, 1], np.int64)]),
        ["Unique (ai.onnx opset 21): its input 'x' has element type STRING", "'u'",
         "Pad (ai.onnx opset 21): its input 'x' has element type STRING", "'p'"]),
    "strings_beside_numbers": (
        model([node("Concat", ["x", "s"], ["y"], name="c", axis=0)],
              inputs=[("x", FLOAT, [4]), ("s", TensorProto.STRING, [4])]),
        ["'c' (Concat)", "has strings and numbers together", "convert one"]),
    "strings_compared_to_numbers": (
        model([node("Equal", ["s", "x"], ["y"], name="e")], outputs=[("y", TensorProto.BOOL, None)],
              inputs=[("x", FLOAT, [4]), ("s", TensorProto.STRING, [4])]),
        ["'e' (Equal)", "strings and numbers together"]),
    "strings_wanted": (
        model([node("StringNormalizer", ["x"], ["y"], name="n")], inputs=[("x", FLOAT, [4])]),
        ["'n' (StringNormalizer)", "takes strings"]),
    "case_of_turkish": (
        model([node("StringNormalizer", ["s"], ["y"], name="n", locale="tr_TR", case_change_action="LOWER")],
              inputs=[("s", TensorProto.STRING, [4])], outputs=[("y", TensorProto.STRING, None)]),
        ["StringNormalizer (ai.onnx opset 21): case in the locale 'tr_TR'", "'n'"]),
    "case_of_no_kind": (
        model([node("StringNormalizer", ["s"], ["y"], name="n", case_change_action="TITLE")],
              inputs=[("s", TensorProto.STRING, [4])], outputs=[("y", TensorProto.STRING, None)]),
        ["'n' (StringNormalizer)", "case_change_action is 'TITLE'", "LOWER or UPPER"]),
    "normalised_matrix": (
        model([node("StringNormalizer", ["s"], ["y"], name="n")],
              inputs=[("s", TensorProto.STRING, [1, 2, 2])], outputs=[("y", TensorProto.STRING, None)]),
        ["'n' (StringNormalizer)", "1x2x2", "[C] or [1, C]"]),
    "truth_as_strings": (
        model([node("Cast", ["b"], ["y"], name="c", to=TensorProto.STRING),
               node("Cast", ["y"], ["z"], name="d", to=TensorProto.BOOL)],
              inputs=[("b", TensorProto.BOOL, [4])], outputs=[("z", TensorProto.BOOL, None)]),
        ["Cast (ai.onnx opset 21): BOOL as strings", "'c'"]),
    "strings_that_do_not_fill": (
        model([node("Identity", ["s"], ["y"], name="i")], inputs=[("x", FLOAT, [4])],
              outputs=[("y", TensorProto.STRING, None)],
              initializers=[onnx.TensorProto(name="s", data_type=TensorProto.STRING, dims=[3], string_data=[b"a"])]),
        ["tensor 's'", "holds 1 strings, which do not fill its dims"]),
    "categories_of_another_kind": (
        model([node("OneHotEncoder", ["s"], ["y"], name="o", domain="ai.onnx.ml", cats_int64s=[1, 2])],
              inputs=[("s", TensorProto.STRING, [4])], opsets=[("", 21), ("ai.onnx.ml", 3)]),
        ["'o' (OneHotEncoder)", "no categories for its input", "cats_strings"]),
    "words_of_numbers": (
        model([node("TfIdfVectorizer", ["x"], ["y"], name="t", mode="TF", min_gram_length=1, max_gram_length=1,
                    max_skip_count=0, ngram_counts=[0], ngram_indexes=[0], pool_strings=["a"])],
              inputs=[("x", FLOAT, [4])]),
        ["'t' (TfIdfVectorizer)", "the pool holds strings"]),
    "mapper_of_two_lengths": (
        model([node("CategoryMapper", ["s"], ["y"], name="m", domain="ai.onnx.ml", cats_int64s=[1, 2], cats_strings=["a"])],
              inputs=[("s", TensorProto.STRING, [4])], outputs=[("y", INT64, None)], opsets=[("", 21), ("ai.onnx.ml", 3)]),
        ["'m' (CategoryMapper)", "has 1 strings for 2 numbers"]),
    "size_from_data": (
        model([node("Reshape", ["x", "s"], ["y"], name="r")],
              inputs=[("x", FLOAT, ["n", 4]), ("s", INT64, ["k"])]),
        ["Reshape", "the shape depends on data", "'r'"]),
    "complex_input": (
        model([node("Relu", ["x"], ["y"])],
              inputs=[("x", FLOAT, [4]), ("unread", TensorProto.COMPLEX64, [4])]),
        ["input 'unread'", "COMPLEX64", "before the model"]),
    "input_without_shape": (
        model([node("Relu", ["x"], ["y"])], inputs=[("x", FLOAT, None)]),
        ["input 'x'", "no shape"]),
    "huge_tensor": (
        model([node("Expand", ["x", "s"], ["y"], name="e")],
              inputs=[("x", FLOAT, [1])],
              initializers=[constant("s", [2**40, 2**40])]),
        ["'e' (Expand)", "too large"]),
    "huge_initializer": (
        with_raw(b"", [2**62, 2**62]), ["tensor 'w'", "too large"]),
    "short_initializer": (
        with_raw(b"\0" * 12, [4]), ["tensor 'w'", "12 bytes", "16"]),
    "negative_dim": (with_raw(b"", [-4]), ["tensor 'w'", "-4"]),
    "short_large_initializer": (
        with_raw(b"\0" * 70000, [20000]), ["tensor 'w'", "70000", "80000"]),
    "external_climbs": (external("../secret"), ["'../secret'", "leaves"]),
    "external_absolute": (external("/etc/passwd"), ["'/etc/passwd'", "leaves"]),
    "external_missing": (external("none.bin"), ["'none.bin'", "cannot be read"]),
    "external_offset": (
        external("model.onnx", offset=10**9), ["tensor 'w'", "outside 'model.onnx'"]),
    "external_not_a_number": (
        external("model.onnx", offset="ten"), ["tensor 'w'", "offset 'ten'"]),
    "function_recursion": (recursive(), ["nested", "'start/"]),
    "function_explosion": (exponential(), ["262144 nodes"]),
    "old_opset": (
        model([node("Einsum", ["x", "x"], ["y"], equation="ij,ij->ij", name="s")], opset=6),
        ["Einsum (ai.onnx opset 6)", "not in this opset version"]),
    "output_type": (
        model([node("Relu", ["x"], ["y"])], outputs=[("y", INT64, None)]),
        ["output 'y'", "INT64"]),
    "output_undefined": (
        model([node("Relu", ["x"], ["z"])]), ["output 'y'", "nowhere"]),
    "if_of_a_vector": (
        branch(body([node("Neg", ["x"], ["a"])], [], ["a"]),
               body([node("Neg", ["x"], ["b"])], [], ["b"]),
               condition=[("c", TensorProto.BOOL, [2])]),
        ["'if' (If)", "one boolean"]),
    "if_of_a_number": (
        branch(body([node("Neg", ["x"], ["a"])], [], ["a"]),
               body([node("Neg", ["x"], ["b"])], [], ["b"]), condition=[("c", INT64, [])]),
        ["'if' (If)", "must be boolean"]),
    "if_without_else": (
        model([node("If", ["c"], ["y"], name="if",
                    then_branch=body([node("Neg", ["x"], ["a"])], [], ["a"]))],
              inputs=[("x", FLOAT, [4]), ("c", TensorProto.BOOL, [])]),
        ["'if' (If)", "has no else_branch"]),
    "if_with_other_results": (
        branch(body([node("Neg", ["x"], ["a"])], [], ["a", "a"]),
               body([node("Neg", ["x"], ["b"])], [], ["b"])),
        ["'if' (If)", "then_branch gives 2 results of 1"]),
    "if_with_other_ranks": (
        branch(body([node("Neg", ["x"], ["a"])], [], ["a"]),
               body([node("ReduceSum", ["x"], ["b"], keepdims=0)], [], ["b"])),
        ["If (ai.onnx opset 21)", "its branches give nx4xf32 and f32", "depends on data"]),
    "if_with_a_sequence": (
        branch(body([node("SequenceConstruct", ["x"], ["a"])], [], ["a"]),
               body([node("SequenceEmpty", [], ["b"])], [], ["b"])),
        ["If (ai.onnx opset 21)", "depends on data"]),
    "if_with_a_wrong_branch": (
        branch(body([node("Softmax", ["x"], ["a"], axis=5, name="s")], [], ["a"]),
               body([node("Neg", ["x"], ["b"])], [], ["b"])),
        ["axis 5 is outside rank 2"]),
    "loop_without_body": (
        model([node("Loop", ["", "", "x"], ["y"], name="loop")]), ["'loop' (Loop)", "has no body"]),
    "loop_with_other_inputs": (
        loop(SAME, carried=(), outputs=["x"]),
        ["'loop' (Loop)", "2 inputs and 2 outputs for 1 carried"]),
    "loop_without_end": (
        loop([node("Neg", ["v"], ["w"]), *SAME], outputs=["w"], inputs=("", "", "x")),
        ["Loop (ai.onnx opset 21)", "never ends"]),
    "loop_that_changes_the_rank": (
        loop([node("ReduceSum", ["v"], ["w"], keepdims=0), *SAME], outputs=["w"]),
        ["Loop (ai.onnx opset 21)", "carried value 0 is nx4xf32 and becomes f32"]),
    "loop_that_collects_other_sizes": (
        loop([node("Concat", ["v", "v"], ["w"], axis=0), *SAME], outputs=["w", "w"],
             results=("z", "y")),
        ["Loop (ai.onnx opset 21)", "changes its size"]),
    "loop_over_a_sequence_for_data": (
        model([node("SequenceEmpty", [], ["s"]),
               node("Loop", ["m", "", "s"], ["r"], name="loop",
                    body=body([node("SequenceInsert", ["v", "x"], ["w"]), *SAME],
                              [*TURN, "v"], [("d", TensorProto.BOOL), "w"])),
               node("ConcatFromSequence", ["r"], ["y"], axis=0)],
              inputs=[("x", FLOAT, [4]), ("m", INT64, [])]),
        ["Loop (ai.onnx opset 21)", "carries a sequence", "depends on data"]),
    "scan_without_inputs": (scan(), ["'scan' (Scan)", "num_scan_inputs"]),
    "scan_axes": (
        scan(num_scan_inputs=1, scan_input_axes=[0, 1]),
        ["'scan' (Scan)", "scan_input_axes has 2 entries of 1"]),
    "scan_axis": (
        scan(num_scan_inputs=1, scan_input_axes=[2]),
        ["'scan' (Scan)", "axis 2 is outside rank 2"]),
    "scan_with_lengths": (
        model([node("Scan", ["l", "s0", "x"], ["y"], name="scan", num_scan_inputs=1,
                    body=body([node("Add", ["s", "e"], ["t"])], ["s", "e"], ["t"]))],
              inputs=[("x", FLOAT, ["b", "n", 4]), ("s0", FLOAT, ["b", 4]), ("l", INT64, ["b"])],
              opset=8),
        ["Scan (ai.onnx opset 8)", "sequence_lens"]),
    "lstm_direction": (lstm(direction="up"), ["'lstm' (LSTM)", "direction is 'up'"]),
    "lstm_rank": (lstm(rank=["t", 4]), ["'lstm' (LSTM)", "rank 3, not 2"]),
    "lstm_hidden": (lstm(hidden_size=6), ["'lstm' (LSTM)", "hidden_size is 6"]),
    "lstm_weights": (lstm(weights=(1, 15, 4)), ["'lstm' (LSTM)", "should be 20"]),
    "lstm_activations": (
        lstm(activations=["Tanh"]), ["'lstm' (LSTM)", "has 1 activations of 3"]),
    "lstm_unknown_activation": (
        lstm(activations=["Tanh", "Sigmoid", "Wave"]), ["'lstm' (LSTM)", "no activation 'Wave'"]),
    "sequence_position": (
        sequence(node("SequenceAt", ["s", "five"], ["y"], name="at")),
        ["'at' (SequenceAt)", "position 5 is outside a sequence of 2"]),
    "sequence_output": (
        sequence(node("SequenceErase", ["s"], ["y"])), ["output 'y'", "is a sequence"]),
    "sequence_for_a_tensor": (
        sequence(node("Relu", ["s"], ["y"], name="r")),
        ["Relu (ai.onnx opset 21)", "an input is a sequence"]),
    "tensor_for_a_sequence": (
        sequence(node("SequenceAt", ["x", "one"], ["y"], name="at")),
        ["'at' (SequenceAt)", "no sequence"]),
    "empty_sequence": (
        model([node("SequenceEmpty", [], ["s"]),
               node("ConcatFromSequence", ["s"], ["y"], axis=0, name="c")]),
        ["'c' (ConcatFromSequence)", "empty"]),
    "split_sizes": (
        model([node("SplitToSequence", ["x", "p"], ["s"], axis=1, name="split"),
               node("ConcatFromSequence", ["s"], ["y"], axis=1)],
              initializers=[constant("p", [1, 2])]),
        ["'split' (SplitToSequence)", "3 of 4"]),
    "empty_optional": (
        model([node("Optional", [], ["o"],
                    type=helper.make_tensor_type_proto(FLOAT, [4])),
               node("OptionalGetElement", ["o"], ["y"], name="get")]),
        ["'get' (OptionalGetElement)", "empty"]),
}  # fmt: skip

CASES |= {
    f"mixed_types_{op}_{odd}": (mixed(op, shapes, odd, **more), [f"'o' ({op})", "element type", "i32"])
    for op, shapes, more in (
        ("Conv", [[1, 3, 8, 8], [4, 3, 3, 3]], {}),
        ("ConvTranspose", [[1, 3, 8, 8], [3, 4, 3, 3]], {}),
        ("RNN", [[5, 1, 3], [1, 4, 3], [1, 4, 4], [1, 8]], {"hidden_size": 4}),
        ("GRU", [[5, 1, 3], [1, 12, 3], [1, 12, 4], [1, 24]], {"hidden_size": 4}),
        ("LSTM", [[5, 1, 3], [1, 16, 3], [1, 16, 4], [1, 32]], {"hidden_size": 4}),
    )
    for odd in range(len(shapes))
}


def run(path, *options):
    return subprocess.run(
        [PROGRAM, "--import-onnx", *options, path],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def refused(result, words):
    assert result.returncode == 1, result.stdout[:500]
    assert result.stderr.startswith("error: ")
    assert "report this" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.mark.parametrize("name", CASES)
def test_refused(name, tmp_path):
    made, words = CASES[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    refused(run(path), words)


def test_link_leaves_the_folder(tmp_path):
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "w.bin").symlink_to("../secret")
    (inner / "model.onnx").write_bytes(external("w.bin").SerializeToString())
    refused(run(inner / "model.onnx"), ["'w.bin'", "link"])


@pytest.mark.parametrize(
    "data", [b"", b"hello, this is no model", b"\x0a\xff\xff\xff\xff\x0f", b"\x08"]
)
def test_not_a_model(data, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    refused(run(path), ["model.onnx"])


def test_cut_short(tmp_path):
    whole = model([node("Relu", ["x"], ["y"])]).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    refused(run(path), ["at byte", "cut short"])


def test_unknown_dim(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(model([node("Relu", ["x"], ["y"])]).SerializeToString())
    refused(run(path, "--dim=batch=2"), ["'batch'", "its symbolic dims are: n"])
    fixed = run(path, "--dim=n=2")
    assert fixed.returncode == 0 and "tensor<2x4xf32>" in fixed.stdout
