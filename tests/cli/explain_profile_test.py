"""`knapper explain --profile`: times, shares of the roofline, advice, the graph to walk, two artefacts compared."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture
def mlp(tmp_path):
    """softmax(gelu(x up) down), x: [batch, 64]."""
    draw = np.random.default_rng(0).standard_normal
    weights = [numpy_helper.from_array(draw(shape).astype(np.float32) / 8, name)
               for name, shape in (("up", (64, 256)), ("down", (256, 64)))]  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["wide"], "widen"),
        helper.make_node("Gelu", ["wide"], ["active"], "gelu"),
        helper.make_node("MatMul", ["active", "down"], ["sum"], "narrow"),
        helper.make_node("Softmax", ["sum"], ["y"], "softmax"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "mlp", [value("x", TensorProto.FLOAT, ["batch", 64])],
                              [value("y", TensorProto.FLOAT, ["batch", 64])], weights)  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "m.onnx")
    return "m.onnx"


RUN = ("--profile", "--runs", "5")


def profiled(tool, *arguments):
    return json.loads(tool("explain", *arguments, *RUN, "--json"))


def advice(kernel):
    return {a["kind"]: a["text"] for a in kernel["advice"]}


def test_times_of_all_kernels(tool, mlp):
    about = profiled(tool, mlp, "--dim", "batch=8")
    profile = about["profile"]
    assert profile["runs"] == 5 and profile["sizes"] == {"batch": 8}
    assert profile["peak_gflops"] > 0 and profile["peak_gbps"] > 0
    assert [x["index"] for x in profile["launches"]] == list(range(len(about["launches"])))
    kernels = profile["kernels"]
    assert [k["us"] for k in kernels] == sorted((k["us"] for k in kernels), reverse=True)
    assert sum(k["share_percent"] for k in kernels) == pytest.approx(100)
    for k in kernels:
        least = {"memory": k["bytes"] / profile["peak_gbps"], "arithmetic": k["flops"] / profile["peak_gflops"]}
        assert k["bound_by"] == max(least, key=least.get)
        assert k["roofline_percent"] == pytest.approx(0.1 * max(least.values()) / k["us"])
        assert k["advice"]
        assert any("not fused with" in a["text"] for a in k["advice"] if a["kind"] == "fusion")


def test_the_text_names_kernels_peaks_and_advice(tool, mlp):
    text = tool("explain", mlp, *RUN, "--dim", "auto")
    assert text.startswith("sizes chosen: batch=1\n") and text.endswith("m.html\n")
    for part in ("at batch=1: median of 5 runs", "GFLOP/s", "roofline, of what", "widen, gelu", "narrow",
                 "a kernel holds one of dot and dot"):  # fmt: skip
        assert part in text


def test_fixed_sizes_are_not_advised(tool, mlp):
    """Once they are fixed."""
    tool("compile", mlp, "--dim", "batch=8", "-o", "fixed.knap")
    for kernel in profiled(tool, "fixed.knap")["profile"]["kernels"]:
        assert "sizes" not in advice(kernel)


def test_recorded_kernels_are_not_advised_to_be_tuned(tool, mlp, tmp_path):
    about = json.loads(tool("explain", mlp, "--json"))
    records = [{"signature": k["signature"], "target": "cpu", "gain": 1.0, "machine": "", "threads": 1, "sizes": "",
                "choice": {b["name"]: b["value"] for b in k["knobs"]}}
               for k in about["report"]["unique_kernels"] if k["knobs"]]  # fmt: skip
    (tmp_path / "r.json").write_text(json.dumps({"knapper_tuning": 1, "records": records}))
    tool("compile", mlp, "--records", "r.json", "-o", "tuned.knap")
    for kernel in profiled(tool, "tuned.knap", "--dim", "batch=8")["profile"]["kernels"]:
        assert "tune" not in advice(kernel)


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.nodes, self.edges, self.references = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if "id" in a:
            self.ids.add(a["id"])
        if a.get("class") == "node":
            self.nodes.append(int(a["data-launch"]))
        if a.get("class") == "edge":
            self.edges.append((int(a["data-from"]), int(a["data-to"])))
        self.references += [v for k, v in attrs if k in ("src", "href", "action", "data", "xlink:href")]


def test_the_page_has_every_launch_and_needs_no_network(tool, mlp, tmp_path):
    about = profiled(tool, mlp, "--dim", "batch=8")
    tool("explain", mlp, *RUN, "--dim", "batch=8", "-o", "r.html")
    text = (tmp_path / "r.html").read_text()
    page = Page(text)
    count = len(about["launches"])
    assert page.nodes == list(range(count))
    assert {f"launch{i}" for i in range(count)} | {"times", "graph"} <= page.ids
    assert page.edges == [(i, i + 1) for i in range(count - 1)]
    assert all(r.startswith("#") and r[1:] in page.ids for r in page.references)
    assert not re.search(r"https?:|@import|url\(", text)
    for kernel in about["profile"]["kernels"]:
        assert kernel["kernel"] in text


def test_the_page_without_times_has_the_graph(tool, mlp, tmp_path):
    tool("explain", mlp, "-o", "r.html")
    page = Page((tmp_path / "r.html").read_text())
    assert page.nodes and "graph" in page.ids and "times" not in page.ids


def test_two_artefacts_are_compared(tool, mlp, tmp_path):
    tool("compile", mlp, "-o", "a.knap")
    tool("compile", mlp, "--dtype", "bf16", "-o", "b.knap")
    run = ("a.knap", "--compare", "b.knap", "--dim", "batch=16")
    comparison = profiled(tool, *run)["comparison"]
    assert (comparison["first"], comparison["second"]) == ("a.knap", "b.knap")
    rows = comparison["kernels"]
    both = {r["origin"] for r in rows if r["first"]["kernels"] and r["second"]["kernels"]}
    assert {"widen, gelu", "narrow"} <= both
    differences = [abs(r["difference_us"]) for r in rows]
    assert differences == sorted(differences, reverse=True)
    for row in rows:
        assert row["difference_us"] == pytest.approx(row["second"]["us"] - row["first"]["us"])
    text = tool("explain", *run, *RUN, "-o", "r.html")
    assert "second/first" in text and "whole runs" in text and "narrow" in text
    assert "comparison" in Page((tmp_path / "r.html").read_text()).ids


def test_compared_with_itself_nothing_is_alone(tool, mlp):
    tool("compile", mlp, "-o", "a.knap")
    rows = profiled(tool, "a.knap", "--compare", "a.knap", "--dim", "batch=16")["comparison"]["kernels"]
    assert all(r["first"]["kernels"] == r["second"]["kernels"] != [] for r in rows)


@pytest.mark.parametrize("arguments, parts", [
    (["--dim", "batch=2"], ["--dim requires --profile"]),
    (["--runs", "5"], ["--runs requires --profile"]),
    (["--compare", "a.knap"], ["--compare requires --profile"]),
    (["--profile"], ["size 'batch' has no value", "--dim batch=1", "--dim auto"]),
    (["--profile", "--dim", "size=2"], ["the model has no size 'size'"]),
    (["--profile", "--dim", "auto", "--device", "cuda"], ["no code for device 'cuda'"]),
    (["--profile", "--dim", "auto", "--compare", "none.knap"], ["none.knap"]),
    (["--profile", "--dim", "auto", "--compare", "other.knap"], ["other inputs", "x f32 of rank 2", "artefacts of one model"]),
])  # fmt: skip
def test_refusals(tool, mlp, tmp_path, arguments, parts):
    tool("compile", mlp, "-o", "a.knap")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Relu", ["z"], ["y"])], "g", [value("z", TensorProto.FLOAT, [4])],
                              [value("y", TensorProto.FLOAT, [4])])  # fmt: skip
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "o.onnx")
    tool("compile", "o.onnx", "-o", "other.knap")
    message = tool("explain", "a.knap", *arguments, code=1)
    for part in parts:
        assert part in message
