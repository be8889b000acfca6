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
    outputs = {k[4:]: a for k, a in arrays.items() if k.startswith("out.")}
    assert sorted(result.keys()) == sorted(outputs)
    for output, wanted in outputs.items():
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


def test_caches_updated_in_place_agree_with_caches_that_grow():
    """Two steps of decoding, from the same weights (decode_in_place.py)."""
    import onnx
    from decode_in_place import build

    ensure(["llama-decode"])
    path = folder() / "llama-decode.onnx"
    grows = knapper.compile(path, threads=2)
    module = knapper.compile(build(onnx.load(path)), threads=2)
    with np.load(folder() / "llama-decode.1.npz") as file:
        feed = {k[3:]: a for k, a in file.items() if k.startswith("in.")}
    # Every token counts: padding is the mask's, which this form has not.
    feed["attention_mask"][:] = 1
    past = [name for name in feed if name.startswith("past")]
    batch, _, held, _ = feed[past[0]].shape
    caches = {}
    for name in past:
        room = np.pad(feed[name], ((0, 0), (0, 0), (0, 5), (0, 0)), constant_values=1e3)
        caches[name.replace("past_key_values", "past")] = room
    outputs = {name.replace("past", "present"): array for name, array in caches.items()}
    assert {name: module.in_place[name] for name in outputs} == {
        name: (name.replace("present", "past"),) for name in outputs
    }
    for step in range(2):
        wanted = grows(feed)
        own = {"input_ids": feed["input_ids"], "held": np.full(batch, held + step)}
        result = module.run(own | caches, outputs)
        error = np.abs(result["logits"] - wanted["logits"]).max()
        assert error <= LIMIT * np.abs(wanted["logits"]).max()
        for name, array in outputs.items():
            grown = wanted[name]
            error = np.abs(array[:, :, : held + step + 1] - grown).max()
            assert error <= LIMIT * np.abs(grown).max()
            assert (array[:, :, held + step + 1 :] == 1e3).all()
        feed = {name: wanted[name.replace("past_key_values", "present")] for name in past} | {
            "input_ids": wanted["logits"].argmax(-1).reshape(batch, 1),
            "attention_mask": np.ones((batch, held + step + 2), np.int64),
        }
