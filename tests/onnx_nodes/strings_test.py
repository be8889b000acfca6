"""Strings at the borders of models, and the operators on them, beside onnx.reference
or Python's own words for it."""

from __future__ import annotations

import pickle

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import knapper

STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT
ML = "ai.onnx.ml"
node = helper.make_node


def texts(name, values):
    values = np.array(values, object)
    return helper.make_tensor(
        name, STRING, values.shape, [v.encode() for v in values.ravel()]
    )


def compiled(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        list(initializers),
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 4)]
    return knapper.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def single(op, x, dims, out=STRING, *, count=1, initializers=(), more=(), domain="", **attributes):
    """Results of one node on one input of strings."""
    outputs = [(f"y{i}", o, None) for i, o in enumerate(out if count > 1 else [out])]
    m = compiled(
        [node(op, ["x", *more], [o[0] for o in outputs], domain=domain, **attributes)],
        [("x", STRING, dims)], outputs, initializers,
    )  # fmt: skip
    result = m(np.array(x, object))
    return [r.tolist() for r in result] if count > 1 else result[0].tolist()


WORDS = [["a", "bb", ""], ["d d", "\u00fcber", "f"]]
INDEX = numpy_helper.from_array(np.int64([1, 0, 1]), "i")


@pytest.mark.parametrize(
    "op, more, initializers, attributes, wanted",
    [
        ("Identity", (), (), {}, WORDS),
        ("Transpose", (), (), {"perm": [1, 0]}, [list(c) for c in zip(*WORDS)]),
        ("Flatten", (), (), {"axis": 0}, [sum(WORDS, [])]),
        ("Gather", ("i",), (INDEX,), {"axis": 1}, [[r[1], r[0], r[1]] for r in WORDS]),
        ("Tile", ("i",), (numpy_helper.from_array(np.int64([1, 2]), "i"),), {}, [2 * r for r in WORDS]),
        ("Concat", ("t", "x"), (texts("t", [["x"], ["y"]]),), {"axis": 1},
         [r + [t] + r for r, t in zip(WORDS, "xy")]),
        ("Unsqueeze", ("i",), (numpy_helper.from_array(np.int64([0]), "i"),), {}, [WORDS]),
        ("Slice", ("s", "e", "i"), tuple(numpy_helper.from_array(np.int64(v), n) for n, v in
         (("s", [-1]), ("e", [-9]), ("i", [1]))) , {}, [[], []]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dims", [[2, 3], ["r", 3]])
def test_moved(op, more, initializers, attributes, wanted, dims):
    assert single(op, WORDS, dims, initializers=initializers, more=more, **attributes) == wanted


def test_moved_between_two_inputs():
    m = compiled(
        [node("Where", ["c", "x", "t"], ["y"])],
        [("c", TensorProto.BOOL, ["n"]), ("x", STRING, ["n"])], [("y", STRING, None)],
        [texts("t", ["none"])],
    )  # fmt: skip
    y = m(np.array([True, False]), ["a", "b"])[0]
    assert y.tolist() == ["a", "none"]


def test_split_into_several():
    a, b = single("Split", WORDS, [2, 3], [STRING] * 2, count=2, axis=0, num_outputs=2)
    assert [a[0], b[0]] == WORDS


def test_constants():
    m = compiled(
        [
            node("Constant", [], ["one"], value_string="word"),
            node("Constant", [], ["two"], value_strings=["a", "\u00fc"]),
            node("Constant", [], ["three"], value=texts("v", [["x"], ["y"]])),
            node("StringConcat", ["three", "two"], ["four"]),
            node("Identity", ["given"], ["five"]),
        ],
        [],
        [(n, STRING, None) for n in ("one", "two", "four", "five")],
        [texts("given", ["in", "the file"])],
    )
    one, two, four, five = m()
    assert one.shape == () and one.item() == "word"
    assert two.tolist() == ["a", "\u00fc"]
    assert four.tolist() == [["xa", "x\u00fc"], ["ya", "y\u00fc"]]
    assert five.tolist() == ["in", "the file"]


@pytest.mark.parametrize("delimiter", [None, "", ",", "::"])
@pytest.mark.parametrize("most", [None, 0, 1, 2])
def test_split_as_python_does(delimiter, most):
    lines = ["a,b,,c", "  two  words ", "", "a::b::c", "x"]
    attributes = {k: v for k, v in (("delimiter", delimiter), ("maxsplit", most)) if v is not None}
    parts, counts = single("StringSplit", lines, ["n"], (STRING, INT64), count=2, **attributes)
    wanted = [line.split(delimiter or None, -1 if most is None else most) for line in lines]
    assert counts == [len(w) for w in wanted]
    width = max(counts)
    assert parts == [w + [""] * (width - len(w)) for w in wanted]


def test_a_size_from_strings_goes_on_into_kernels():
    m = compiled(
        [
            node("StringSplit", ["x"], ["parts", "counts"]),
            node("Shape", ["parts"], ["shape"]),
            node("ReduceSum", ["counts"], ["sum"], keepdims=0),
        ],
        [("x", STRING, ["n"])],
        [("shape", INT64, None), ("sum", INT64, None)],
    )
    for lines in (["a b", "c"], ["a b c d"], []):
        shape, total = m(np.array(lines, object))
        counts = [len(line.split()) for line in lines]
        assert shape.tolist() == [len(lines), max(counts, default=0)]
        assert total == sum(counts)


@pytest.mark.parametrize("x, dims", [(["Mo", "DI", "mi", "\u00c4R"], ["n"]), ([["Mo", "DI"]], [1, "n"])])
@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_normalizer(x, dims, action, sensitive):
    stop = ["mo", "DI", "\u00e4r"]
    got = single("StringNormalizer", x, dims, case_change_action=action,
                 is_case_sensitive=sensitive, stopwords=stop)  # fmt: skip
    words = x if len(dims) == 1 else x[0]
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[action]
    lower = {w.lower() for w in stop}
    kept = [change(w) for w in words if not (w in stop if sensitive else w.lower() in lower)] or [""]
    assert got == (kept if len(dims) == 1 else [kept])


@pytest.mark.parametrize(
    "to, x, wanted",
    [
        (FLOAT, ["1", " 2.5 ", "-1e-3", "inf", "-INF", "+7"], [1, 2.5, -1e-3, np.inf, -np.inf, 7]),
        (TensorProto.DOUBLE, ["0.1"], [0.1]),
        (TensorProto.FLOAT16, ["0.5"], [0.5]),
        (INT64, ["9223372036854775807", "-5"], [2**63 - 1, -5]),
        (TensorProto.INT8, ["-128"], [-128]),
        (TensorProto.UINT64, ["18446744073709551615"], [2**64 - 1]),
    ],
)
def test_cast_from_strings(to, x, wanted):
    got = single("Cast", x, ["n"], to, to=to)
    assert got == [pytest.approx(w, rel=1e-6) for w in wanted]
    assert np.isnan(single("Cast", ["NaN"], ["n"], FLOAT, to=FLOAT)[0])


@pytest.mark.parametrize("to, x", [(FLOAT, "1,5"), (FLOAT, ""), (INT64, "1.5"), (INT64, "99999999999999999999"), (TensorProto.UINT64, "-1")])
def test_what_is_no_number_is_named(to, x):
    with pytest.raises(knapper.UserError, match=r"node '#0' \(Cast\): string 0, '.*', is no number"):
        single("Cast", [x], ["n"], to, to=to)


def shortest(v):
    """As Python writes a float, with the digits that v's dtype needs."""
    if v == 0 or 1e-4 <= abs(v) < 1e16:
        return np.format_float_positional(v, trim="0")
    return np.format_float_scientific(v, trim="-", exp_digits=2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64", "int8"])
def test_cast_to_strings(dtype):
    values = np.array([0, 1, 100, 127], dtype)
    if "float" in dtype:
        values = np.array([0.1, -2.5, 1, 1e8, 1e16, 123456.75, 1e-4, 1.5e-5, 3e38, -0.0], dtype)
    m = compiled(
        [node("Cast", ["x"], ["y"], to=STRING)],
        [("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n"])], [("y", STRING, None)],
    )  # fmt: skip
    wanted = [str(v) if "int" in dtype else shortest(v) for v in values]
    assert m(values)[0].tolist() == wanted
    if dtype == "float32":
        assert m(np.float32([np.nan, np.inf, -np.inf]))[0].tolist() == ["NaN", "INF", "-INF"]


def test_equal_broadcasts():
    m = compiled(
        [node("Equal", ["x", "t"], ["y"])], [("x", STRING, ["r", 2])],
        [("y", TensorProto.BOOL, None)], [texts("t", ["a", "b"])],
    )  # fmt: skip
    assert m([["a", "a"], ["b", "b"]])[0].tolist() == [[True, False], [False, True]]


KEYS = ["b", "a", "\u00fc", "a"]  # of equal keys the last one counts


@pytest.mark.parametrize(
    "attributes, out, wanted",
    [
        ({"values_int64s": [1, 2, 3, 4], "default_int64": -7}, INT64, [4, 1, -7, 3]),
        ({"values_floats": [1.0, 2.0, 3.0, 4.0], "default_float": 0.5}, FLOAT, [4, 1, 0.5, 3]),
        ({"values_strings": list("wxyz"), "default_string": "?"}, STRING, ["z", "w", "?", "y"]),
        ({"values_strings": list("wxyz")}, STRING, ["z", "w", "_Unused", "y"]),
    ],
)
def test_label_encoder_of_strings(attributes, out, wanted):
    got = single("LabelEncoder", ["a", "b", "c", "\u00fc"], ["n"], out, domain=ML,
                 keys_strings=KEYS, **attributes)  # fmt: skip
    assert got == wanted


def test_label_encoder_to_strings():
    m = compiled(
        [node("LabelEncoder", ["x"], ["y"], domain=ML, keys_int64s=[3, 5], values_strings=["three", "five"])],
        [("x", INT64, ["n", 2])], [("y", STRING, None)],
    )  # fmt: skip
    assert m(np.int64([[5, 3], [4, 5]]))[0].tolist() == [["five", "three"], ["_Unused", "five"]]


def test_category_mapper_both_ways():
    table = {"cats_strings": ["red", "blue"], "cats_int64s": [7, 9]}
    got = single("CategoryMapper", ["blue", "green", "red"], ["n"], INT64, domain=ML, **table)
    assert got == [9, -1, 7]
    m = compiled(
        [node("CategoryMapper", ["x"], ["y"], domain=ML, default_string="?", **table)],
        [("x", INT64, ["n"])], [("y", STRING, None)],
    )  # fmt: skip
    assert m(np.int64([9, 8, 7]))[0].tolist() == ["blue", "?", "red"]


def test_one_hot_encoder_of_strings():
    got = single("OneHotEncoder", ["b", "a", "?"], ["n"], FLOAT, domain=ML, cats_strings=["a", "b"])
    assert got == [[0, 1], [1, 0], [0, 0]]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_tf_idf_of_words(mode):
    pool, words = ["a", "b", "b", "a", "c", "c"], {"a": 0, "b": 1, "c": 2}
    shared = {
        "mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1,
        "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2, 3], "weights": [0.5, 2.0, 3.0, 4.0],
    }  # fmt: skip
    lines = [["a", "b", "a", "x"], ["c", "c", "b", "c"]]
    got = single("TfIdfVectorizer", lines, ["n", 4], FLOAT, pool_strings=pool, **shared)
    m = compiled(
        [node("TfIdfVectorizer", ["x"], ["y"], pool_int64s=[words[w] for w in pool], **shared)],
        [("x", INT64, ["n", 4])], [("y", FLOAT, None)],
    )  # fmt: skip
    numbers = np.int64([[words.get(w, 99) for w in line] for line in lines])
    assert got == m(numbers)[0].tolist()
    assert np.any(got)


def test_classifiers_give_names():
    labels = ["cat", "dog", "emu"]
    m = compiled(
        [node("LinearClassifier", ["x"], ["l", "s"], domain=ML, classlabels_strings=labels,
              coefficients=[1.0, 0.0, 0.0, 1.0, -1.0, -1.0], intercepts=[0.0, 0.0, 0.0])],
        [("x", FLOAT, ["n", 2])], [("l", STRING, None), ("s", FLOAT, None)],
    )  # fmt: skip
    x = np.float32([[2, 1], [1, 2], [-1, -1]])
    assert m(x)[0].tolist() == labels
    m = compiled(
        [node("TreeEnsembleClassifier", ["x"], ["l", "s"], domain=ML, classlabels_strings=["low", "high"],
              nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
              nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.0, 0.0, 0.0],
              nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
              class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 1.0])],
        [("x", FLOAT, ["n", 1])], [("l", STRING, None), ("s", FLOAT, None)],
    )  # fmt: skip
    assert m(np.float32([[-1], [1]]))[0].tolist() == ["low", "high"]


def test_in_a_branch():
    branch = lambda op, **a: helper.make_graph(
        [node(op, ["x"], ["b"], **a)], "g", [], [helper.make_tensor_value_info("b", STRING, None)]
    )
    m = compiled(
        [node("If", ["c"], ["y"], then_branch=branch("Identity"),
              else_branch=branch("StringNormalizer", case_change_action="UPPER", stopwords=["b"]))],
        [("c", TensorProto.BOOL, []), ("x", STRING, ["n"])], [("y", STRING, None)],
    )  # fmt: skip
    assert m(np.bool_(True), ["a", "b"])[0].tolist() == ["a", "b"]
    assert m(np.bool_(False), ["a", "b"])[0].tolist() == ["A"]


def test_asynchronously_and_from_a_file(tmp_path):
    m = compiled([node("StringConcat", ["x", "x"], ["y"])], [("x", STRING, ["n"])], [("y", STRING, None)])
    m.save(tmp_path / "m.knap")
    pending = knapper.load(tmp_path / "m.knap").start([["ab", "c"]])
    assert pending.wait()[0].tolist() == ["abab", "cc"]


BOOL = TensorProto.BOOL


@pytest.mark.parametrize(
    "pattern, x, wanted",
    [
        (r"www\.[\w.-]+\.\bcom\b", ["www.google.com", "www.facebook.com", "www.bbc.co.uk"], [1, 1, 0]),
        (r"(?i)\p{L}+", ["\u00dcber", "a1", ""], [1, 0, 0]),
        (r"a|ab", ["ab", "a", "abc"], [1, 1, 0]),  # the whole text, as far as it takes
        (r"(?s).*\x00.*", ["a\0b", "ab"], [1, 0]),
        (r".", ["\u00fc", "\U0001f600", "ab"], [1, 1, 0]),
        ("", ["", "a"], [1, 0]),
        (r"[]\v[:alpha:]\]]+|\Q[(*\E(?i-s:x)(?P<n>y??)\.", ["]\va]", "[(*Xy.", "[(*x.", "[(*X"], [1, 1, 1, 0]),
        (r"{a{,2}|a{2,}?", ["{a{,2}", "aaa", "a"], [1, 1, 0]),
    ],
)  # fmt: skip
def test_full_matches(pattern, x, wanted):
    assert single("RegexFullMatch", x, ["n"], BOOL, pattern=pattern) == list(map(bool, wanted))
    assert single("RegexFullMatch", [x], [1, "n"], BOOL, pattern=pattern) == [list(map(bool, wanted))]


def test_matches_of_no_strings():
    assert single("RegexFullMatch", [], ["n"], BOOL, pattern="a") == []


def test_bytes_that_are_no_characters_match_nothing():
    m = compiled([node("RegexFullMatch", ["x"], ["y"], pattern=".*")], [("x", STRING, ["n"])], [("y", BOOL, None)])
    assert m(np.array([b"\xff", b"\xc3", b"ok"], object))[0].tolist() == [False, False, True]


def test_matching_takes_time_linear_in_the_text():
    # Backtracking would not end in the age of the universe.
    text = "a" * 100_000 + "!"
    for pattern in ("(a*)*b", "(a|aa)+", "(x+x+)+y|(a?){500}a{500}"):
        assert single("RegexFullMatch", [text], ["n"], BOOL, pattern=pattern) == [False]


@pytest.mark.parametrize(
    "pattern, says",
    [("(a", "missing closing"), (r"(a)\1", r"no escape \\1"), ("(?=a)", r"no group \(\?=a"),
     (r"(?<=a)b", r"no group"), ("(?R)", "no group"), ("(?>a)", "no group"), ("(*FAIL)", "repetition of nothing"),
     ("a*+", "repetition of a repetition"), ("a{2}{3}", "repetition of a repetition"), (r"\C", r"no escape \\C"),
     (r"[\z]", r"no escape \\z"), ("[", "missing terminating"), ("a\\", "at end of pattern"),
     ("(((a{100}){100}){100}){100}", "too large")],
)  # fmt: skip
def test_patterns_that_are_none_are_refused_by_the_compile(pattern, says):
    with pytest.raises(knapper.UserError, match=rf"\(RegexFullMatch\): the pattern is no regular expression: .*({says})"):
        single("RegexFullMatch", ["a"], ["n"], BOOL, pattern=pattern)


def test_results_are_pickled_and_copied():
    m = compiled([node("Identity", ["x"], ["y"])], [("x", STRING, ["n"])], [("y", STRING, None)])
    words = ["a", "\u00fc\0", ""]
    result = m(words)
    tensor = pickle.loads(pickle.dumps(result.tensor(0)))
    again = pickle.loads(pickle.dumps(result))
    del result
    assert tensor.dtype == "string" and tensor.numpy().tolist() == words
    assert again[0].tolist() == words
    assert "string[3]" in repr(tensor)
    with pytest.raises(BufferError, match="no strings"):
        tensor.__dlpack__()


def test_memory_for_strings_is_the_modules():
    m = compiled([node("Identity", ["x"], ["y"])], [("x", STRING, ["n"])], [("y", STRING, None)])
    x = np.array(["a"], object)
    with pytest.raises(TypeError, match="strings are provided by the module"):
        m.run([x], [np.empty(1, object)])
    with pytest.raises(TypeError, match="strings are copied by every call"):
        m.bind([x])


def test_through_onnxruntimes_calls():
    import knapper.ort as ort

    graph = helper.make_graph(
        [node("StringConcat", ["x", "x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", STRING, ["n"])],
        [helper.make_tensor_value_info("y", STRING, None)],
    )  # fmt: skip
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].type == session.get_outputs()[0].type == "tensor(string)"
    for x in (np.array(["a", "\u00fc"]), np.array(["a", "\u00fc"], object)):
        assert session.run(None, {"x": x})[0].tolist() == ["aa", "\u00fc\u00fc"]
    with pytest.raises(Exception, match=r"Actual: \(tensor\(float\)\) , expected: \(tensor\(string\)\)"):
        session.run(None, {"x": np.ones(2, np.float32)})
    for make in (lambda: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ones(2, complex), 8),
                 lambda: ort.OrtValue.ortvalue_from_shape_and_type([2], np.object_)):  # fmt: skip
        with pytest.raises(Exception, match="strings are no memory to share"):
            make()
