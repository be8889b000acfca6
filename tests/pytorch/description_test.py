"""Descriptions of graphs that are damaged: errors, never a crash."""

import json

import numpy as np
import pytest

import knapper

GRAPH = {
    "version": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2, "s0"]}],
    "nodes": [
        {
            "name": "y",
            "op": "aten.exp.default",
            "line": "model.py:3",
            "args": {"self": {"%": "x"}},
            "operands": ["x"],
            "results": [{"dtype": "f32", "shape": [2, {"s": "s0"}], "used": True}],
        }
    ],
    "outputs": [{"name": "z", "value": "y"}],
}


def compiled(graph):
    text = graph if isinstance(graph, bytes) else json.dumps(graph).encode()
    return knapper.compile(text, model_format="torch", cache=False)


def changed(path, value):
    graph = json.loads(json.dumps(GRAPH))
    at = graph
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return graph


def test_a_graph():
    module = compiled(GRAPH)
    assert [str(i.name) for i in module.inputs] == ["x"]
    assert module.outputs[0].shape == (2, "s0")


@pytest.mark.parametrize(
    "graph",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"version": 2}',
        b"[]",
        changed(["version"], 7),
        changed(["inputs"], 3),
        changed(["inputs", 0], None),
        changed(["inputs", 0, "shape"], ["s0//"]),
        changed(["inputs", 0, "order"], [0, 0]),
        changed(["inputs", 0, "order"], [1]),
        changed(["nodes", 0], []),
        changed(["nodes", 0, "operands"], ["nothing"]),
        changed(["nodes", 0, "results"], None),
        changed(["nodes", 0, "results", 0, "dtype"], "i64"),
        changed(["nodes", 0, "results", 0, "shape"], [2]),
        changed(["nodes", 0, "results", 0, "shape"], [2, -1]),
        changed(["nodes", 0, "results", 0, "shape"], [3, 4]),
        changed(["nodes", 0, "args"], {"self": {"%": "nothing"}}),
        changed(["nodes", 0, "args"], {}),
        changed(["nodes", 0, "args"], {"self": 1}),
        changed(["outputs", 0, "value"], "nothing"),
        changed(["outputs", 0, "narrow"], [7]),
        changed(["outputs"], [1]),
    ],
)
def test_damage(graph):
    with pytest.raises(knapper.Error):
        compiled(graph)


def test_a_claim_that_the_run_refutes():
    import numpy as np

    module = compiled(changed(["nodes", 0, "results", 0, "shape"], [2, {"s": "s0"}]))
    assert module(np.zeros((2, 5), np.float32))[0].shape == (2, 5)
    with pytest.raises(knapper.UserError):
        module(np.zeros((3, 5), np.float32))


def test_missing_operators_are_listed_once():
    with pytest.raises(knapper.UserError) as caught:
        compiled(changed(["nodes", 0, "op"], "aten.no_such.default"))
    assert "aten.no_such.default(2xs0xf32)" in str(caught.value)
    assert "model.py:3" in str(caught.value)


@pytest.mark.parametrize("offset, shape", [(0, [4]), (1 << 40, [1]), (0, [-1]), (-1, [1]), (0, [1] * 40)])
def test_constants_outside_of_the_data(offset, shape):
    constant = {"name": "c", "dtype": "f32", "shape": shape, "offset": offset}
    graph = {**GRAPH, "inputs": [*GRAPH["inputs"], constant]}
    text = json.dumps(graph).encode()
    text += bytes(64 - len(text) % 64) + bytes(12)  # three floats
    with pytest.raises(knapper.InternalError, match="constant 'c'"):
        knapper.compile(text, model_format="torch", cache=False)


def test_integers_are_counted_as_integers():
    """Which eager does on GPUs alone."""
    graph = {
        "version": 1,
        "inputs": [{"name": "x", "dtype": "i64", "shape": [6]}],
        "nodes": [
            {
                "name": "y",
                "op": "aten.histc.default",
                "args": {"self": {"%": "x"}, "bins": 4, "min": 0, "max": 3},
                "operands": ["x"],
                "results": [{"dtype": "i64", "shape": [4], "used": True}],
            }
        ],
        "outputs": [{"name": "z", "value": "y"}],
    }
    made = compiled(graph)(np.array([0, 3, 3, 1, 7, -1]))
    assert made["z"].dtype == np.int64 and made["z"].tolist() == [1, 1, 0, 2]
