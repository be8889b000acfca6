#!/usr/bin/env python3
"""Times trained models that ship inside PyPI packages beside other runtimes.

    bench/packages.py [NAME...] [--peers LIST] [--threads N] [--json FILE] [--bars]

As bench/models.py, each model compiled once and timed at several sizes of its
dynamic dims. `setup/python test` installs the packages. --bars fails the
command when the geometric mean of the ratios to the best peer is below 1.1 or
one of them below 0.9.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import package_models  # noqa: E402
from comparison import Bars, Row, add_arguments, compare  # noqa: E402
from named_models import named_models  # noqa: E402
from package_models import SMALLEST, image, sequence, silero, silero16, text  # noqa: E402
from peers import Job  # noqa: E402

BARS = Bars(mean=1.1, each=0.9)
RATE = {"sr": np.array(16000, np.int64)}
# Name, then size and feed. Probabilities of noise are compared as in
# tests/models/packages_test.py.
SIZES = {
    "ocr-detector": {
        "640x640": lambda: image(1, 640, 640),
        "320x480": lambda: image(1, 320, 480),
        "960x736": lambda: image(1, 960, 736),
    },
    "ocr-recogniser": {
        "6x48x512": lambda: image(6, 48, 512),
        "1x48x320": lambda: image(1, 48, 320),
        "2x48x200": lambda: image(2, 48, 200),
    },
    "ocr-classifier": {
        "4x48x192": lambda: image(4, 48, 192),
        "1x48x192": lambda: image(1, 48, 192),
    },
    "magika": {"1": lambda: text(1), "32": lambda: text(32)},
    "silero": {
        "1": lambda: silero(1, 16000, 576),
        "4": lambda: silero(4, 16000, 576),
    },
    "silero-ifless": {
        "1": lambda: silero(1, 16000, 576),
        "4": lambda: silero(4, 16000, 576),
    },
    "silero-16k": {"1": lambda: silero16(1, **RATE)},
    "silero-half": {"1": lambda: silero16(1)},
    "silero-openvino": {"1": lambda: silero16(1)},
    "silero-sequence": {"31": lambda: sequence(31)},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_arguments(parser)
    arguments = parser.parse_args()
    names = named_models(parser, arguments.names, SIZES, SIZES)

    import onnx

    def rows():
        for name in names:
            path = package_models.path_of(name)
            if path is None:
                package = package_models.FILES[name][0]
                print(f"{name}: skipped, {package} is not installed (setup/python test)")
                continue
            graph = onnx.load(path, load_external_data=False).graph
            outputs = [value.name for value in graph.output]
            for size, feed in SIZES[name].items():
                job = Job(path, feed(), outputs, arguments.threads)
                yield Row(name, size, job, SMALLEST)

    return compare(rows(), arguments, BARS)


if __name__ == "__main__":
    sys.exit(main())
