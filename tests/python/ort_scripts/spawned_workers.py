"""Workers of a process pool, each with the session of a wrapper that pickles."""

import concurrent.futures
import multiprocessing
import sys

import numpy as np
import onnxruntime as ort


class PickleableSession:
    """Sessions of onnxruntime do not pickle: the path does."""

    def __init__(self, path):
        self.path = path
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.use_per_session_threads = True
        self.session = ort.InferenceSession(path, options)

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, state):
        self.__init__(state["path"])

    def __call__(self, rows):
        return self.session.run(["probabilities"], {"input": rows})[0]


def main():
    folder, out = sys.argv[1:]
    model = PickleableSession(f"{folder}/classifier.onnx")
    random = np.random.default_rng(10)
    parts = [random.standard_normal((3, 16)).astype(np.float32) for _ in range(4)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        results = list(pool.map(model, parts))
    np.savez(out, there=np.stack(results), here=np.stack([model(part) for part in parts]))


if __name__ == "__main__":
    main()
