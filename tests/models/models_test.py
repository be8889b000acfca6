"""The models of the bars: compiled once, run at three sizes, right each time."""

from __future__ import annotations

import numpy as np
import pytest

import knapper
from export import DECODE, NAMES, WIDE, ensure, folder

LIMIT = 2e-4  # largest error over largest absolute value, by output


@pytest.fixture(scope="module", params=NAMES + WIDE + DECODE)
def compiled(request):
    name = request.param
    ensure([name])
    return name, knapper.compile(folder() / f"{name}.onnx", threads=2)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_model(compiled, size):
    name, module = compiled
    with np.load(folder() / f"{name}.{size}.npz") as file:
        arrays = dict(file)
    feed = {k[3:]: a for k, a in arrays.items() if k.startswith("in.")}
    result = module({info.name: feed[info.name] for info in module.inputs})
    for output in result.keys():
        wanted = arrays[f"out.{output}"]
        got = result[output]
        assert got.shape == wanted.shape
        error = np.abs(got - wanted).max() / np.abs(wanted).max()
        assert error <= LIMIT, f"{name} {output}: {error:.1e}"


def test_written_and_exported_minilm_agree():
    """The demo writes the graph by hand, torch exports the same checkpoint."""
    from minilm import write

    ensure(["minilm-real"])
    written = knapper.compile(write(folder() / "minilm-written.onnx"), threads=2)
    exported = knapper.compile(folder() / "minilm-real.onnx", threads=2)
    with np.load(folder() / "minilm-real.1.npz") as file:
        ids, mask = file["in.input_ids"], file["in.attention_mask"]
    one = written(input_ids=ids, attention_mask=mask)["embedding"]
    other = exported(
        input_ids=ids, attention_mask=mask, token_type_ids=np.zeros_like(ids)
    )["sentence_embedding"]
    assert np.abs(one - other).max() <= 1e-5
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
