"""Compiles damaged programs up to the import: a result or an error, never a crash.

    mutate.py FOLDER SEED COUNT

Each program of the folder is damaged COUNT times. Prints what it is about to do, so
that the last line says what a crash came from, and at the end how many were refused.
"""

import random
import sys
from pathlib import Path

import knapper


def damaged(data, random):
    data = bytearray(data)
    kind = random.randrange(4)
    if kind == 0:  # cut
        return bytes(data[: random.randrange(4, len(data))])
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(4, len(data))
        if kind == 1:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        else:
            other = random.randrange(4, len(data))
            size = random.randrange(1, 16)
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def main():
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    refused = 0
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for i in range(count):
            print(path.name, seed + i, flush=True)
            text = damaged(data, random.Random(seed + i))
            try:
                # Up to the import alone: kernels are tested elsewhere.
                knapper.compile(
                    text, model_format="stablehlo", stop_after="import", cache=False
                )
            except knapper.Error as error:
                # MLIR's reader believes some counts, and LLVM refuses the memory.
                internal = isinstance(error, knapper.InternalError)
                assert not internal or "unable to grow" in str(error), error
                refused += "before there was an artefact" not in str(error)
    print("refused", refused)


main()
