"""magika: what kind of file some bytes are."""

import sys

import numpy as np
from magika import Magika

folder, out = sys.argv[1:]
samples = [
    b"#!/usr/bin/env python3\nimport os\n\ndef main():\n    print(os.getcwd())\n" * 4,
    b'{"name": "knapper", "sizes": [1, 2, 3], "nested": {"a": null}}\n' * 4,
    b"<!DOCTYPE html><html><head><title>t</title></head><body><p>x</p></body></html>",
    b"#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 3); return 0; }\n" * 3,
]
magika = Magika()
answers = [magika.identify_bytes(sample) for sample in samples]
np.savez(
    out,
    labels=np.array([str(answer.output.label) for answer in answers]),
    scores=np.array([answer.score for answer in answers], np.float32),
)
