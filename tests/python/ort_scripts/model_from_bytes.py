"""A model from memory, and inputs made from what it says about itself."""

import io
import sys
import zipfile

import numpy as np
import onnxruntime as rt

KINDS = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}


def dummy_inputs(session, seed=0, open_size=2):
    random = np.random.default_rng(seed)
    feed = {}
    for argument in session.get_inputs():
        shape = [d if isinstance(d, int) else open_size for d in argument.shape]
        kind = KINDS[argument.type]
        if kind == np.int64:
            feed[argument.name] = random.integers(0, 2, shape)
        else:
            feed[argument.name] = random.random(shape).astype(kind)
    return feed


folder, out = sys.argv[1:]
archive = io.BytesIO()
with zipfile.ZipFile(archive, "w") as file:
    for name in ("classifier", "vision", "recurrent", "trees"):
        file.write(f"{folder}/{name}.onnx", f"{name}.onnx")
results = {}
with zipfile.ZipFile(archive) as file:
    for name in file.namelist():
        session = rt.InferenceSession(file.read(name), providers=rt.get_available_providers())
        outputs = session.run([o.name for o in session.get_outputs()], dummy_inputs(session))
        for described, array in zip(session.get_outputs(), outputs):
            assert len(described.shape) == array.ndim
            assert described.type == ("tensor(int64)" if array.dtype == np.int64 else "tensor(float)")
            results[f"{name}_{described.name}"] = array
np.savez(out, **results)
