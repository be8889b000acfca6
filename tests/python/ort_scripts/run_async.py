"""run_async behind asyncio: a future a call."""

import asyncio
import sys

import numpy as np
import onnxruntime as ort


class AsyncModel:
    def __init__(self, path):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        self.session = ort.InferenceSession(path, options)

    async def __call__(self, rows):
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def done(results, future, error):
            def finish():
                if error:
                    future.set_exception(RuntimeError(error))
                else:
                    future.set_result(results)

            loop.call_soon_threadsafe(finish)

        self.session.run_async(None, {"input": rows}, done, future)
        return await future


async def main(folder):
    model = AsyncModel(f"{folder}/classifier.onnx")
    random = np.random.default_rng(3)
    batches = [random.standard_normal((n, 16)).astype(np.float32) for n in (1, 4, 2, 8)]
    results = await asyncio.gather(*(model(rows) for rows in batches))
    return [np.concatenate(parts) for parts in zip(*results)]


folder, out = sys.argv[1:]
logits, probabilities = asyncio.run(main(folder))
np.savez(out, logits=logits, probabilities=probabilities)
