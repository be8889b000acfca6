"""A server that turns errors into status codes, by their classes."""

import sys

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
)

folder, out = sys.argv[1:]


def status(action):
    try:
        action()
    except NoSuchFile:
        return 404
    except InvalidProtobuf:
        return 415
    except InvalidArgument:
        return 400
    except ValueError:
        return 422
    except Fail:
        return 499
    return 200


session = ort.InferenceSession(f"{folder}/classifier.onnx")
rows = np.zeros((1, 16), np.float32)
ended = ort.RunOptions()
ended.terminate = True
codes = [
    status(lambda: session.run(None, {"input": rows})),
    status(lambda: session.run(None, {"input": rows[:, :3]})),
    status(lambda: session.run(None, {"input": rows[0]})),
    status(lambda: session.run(None, {"input": rows.astype(np.float64)})),
    status(lambda: session.run(None, {"inputs": rows, "input": rows})),
    status(lambda: session.run(["no"], {"input": rows})),
    status(lambda: session.run(None, {})),
    status(lambda: session.run(None, {"input": rows}, ended)),
    status(lambda: ort.InferenceSession(f"{folder}/none.onnx")),
    status(lambda: ort.InferenceSession(b"junk")),
]
np.savez(out, codes=codes)
