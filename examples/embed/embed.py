#!/usr/bin/env python3
"""Sentence embeddings with all-MiniLM-L6-v2, compiled by Knapper.

    make demo        or        .venv/bin/python examples/embed/embed.py

Writes the checkpoint as an ONNX model, compiles it once for all batch sizes and
lengths, embeds a few sentences, prints how similar they are, the time beside
ONNX Runtime on the same inputs, and where the report of the compilation lies.
Ends with 1 when the embeddings are wrong.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import knapper
from minilm import checkpoint, write

SENTENCES = [
    "A man is playing a guitar on the street.",
    "Someone performs music with a string instrument outdoors.",
    "The stock market fell sharply after the announcement.",
    "Shares dropped as investors reacted to the news.",
    "Heat the oven and bake the bread for forty minutes.",
    "How do I make a loaf of sourdough at home?",
]
# The cosine similarities that the checkpoint gives in PyTorch (transformers'
# BertModel, mean pooling): rows of the upper triangle.
KNOWN = [
    [0.62324, 0.01560, -0.04694, 0.05483, 0.08146],
    [-0.02295, -0.08997, -0.01152, 0.07997],
    [0.64844, 0.04249, -0.05492],
    [0.04598, -0.05697],
    [0.54744],
]
TOLERANCE = 1e-4


def tokenize(tokenizer: Tokenizer, sentences: list[str]) -> dict[str, np.ndarray]:
    """Token ids and their mask, [sentences, longest], int64."""
    encodings = tokenizer.encode_batch(sentences)
    return {
        "input_ids": np.array([e.ids for e in encodings], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encodings], np.int64),
    }


def peer(model: Path, threads: int):
    """ONNX Runtime on the same file: a function from inputs to embeddings."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(["embedding"], inputs)[0]


def race(ours, theirs, inputs, seconds: float) -> tuple[float, float]:
    """Median milliseconds of both, called interleaved for about `seconds`."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not times[0]:
        for function, taken in zip((ours, theirs), times):
            # A pool of the other that still spins would slow this one down.
            time.sleep(0.3)
            for _ in range(2):
                function(inputs)
            turn = time.perf_counter() + 0.2
            while time.perf_counter() < turn:
                start = time.perf_counter()
                function(inputs)
                taken.append(time.perf_counter() - start)
    return statistics.median(times[0]) * 1e3, statistics.median(times[1]) * 1e3


def matrix(similarity: np.ndarray) -> str:
    head = "     " + "".join(f"{i + 1:>7}" for i in range(len(similarity)))
    rows = [
        f"{i + 1:>4} " + "".join(f"{value:7.3f}" for value in row)
        for i, row in enumerate(similarity)
    ]
    return "\n".join([head, *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=Path, default=root / "build" / "demo")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--seconds", type=float, default=3, help="for each comparison of time"
    )
    arguments = parser.parse_args()
    threads = arguments.threads

    start = time.perf_counter()
    model = write(arguments.out / "all-MiniLM-L6-v2.onnx")
    size = model.stat().st_size / 1e6
    print(f"wrote     {model} ({size:.0f} MB) in {time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    artefact = model.with_suffix(".knap")
    module = knapper.compile(model, threads=threads, output=artefact)
    seconds = time.perf_counter() - start
    print(f"compiled  {artefact} in {seconds:.1f} s")
    print(f"          {module.inputs[0]}; {module.outputs[0]}")

    tokenizer = Tokenizer.from_file(str(checkpoint() / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)
    inputs = tokenize(tokenizer, SENTENCES)
    embeddings = module(inputs)["embedding"]
    similarity = embeddings @ embeddings.T

    print("\nsimilarity of")
    for i, sentence in enumerate(SENTENCES):
        print(f"{i + 1:>4}  {sentence}")
    print(matrix(similarity))

    theirs = peer(model, threads)

    def ours(feed):
        return module(feed)["embedding"]

    difference = float(np.abs(embeddings - theirs(inputs)).max())
    upper = np.triu_indices(len(SENTENCES), 1)
    deviation = float(np.abs(similarity[upper] - np.concatenate(KNOWN)).max())
    print(
        f"\nlargest difference: {difference:.1e} from ONNX Runtime's embeddings, "
        f"{deviation:.1e} from the known similarities"
    )

    long = (SENTENCES * 2)[:8]
    batch = tokenize(tokenizer, [" ".join([s] * 40) for s in long])
    batch = {name: np.ascontiguousarray(a[:, :128]) for name, a in batch.items()}
    print(f"\nmilliseconds, {threads} threads, medians interleaved")
    for label, feed in (("these sentences", inputs), ("8 x 128 tokens", batch)):
        mine, other = race(ours, theirs, feed, arguments.seconds)
        print(
            f"  {label:<16} knapper {mine:7.2f}   ONNX Runtime {other:7.2f}   "
            f"ratio {other / mine:.2f}x"
        )

    report = arguments.out / "report.html"
    module.explain(report)
    print(f"\nreport    {report}")

    # Not-a-number must fail too, hence the comparisons this way round.
    if not (difference <= TOLERANCE and deviation <= TOLERANCE):
        print("the embeddings are WRONG", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
