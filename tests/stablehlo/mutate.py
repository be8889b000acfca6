"""Compiles damaged programs up to the import: a result or an error, never a crash.

    mutate.py FOLDER SEED COUNT

Each program of the folder is compiled as it is, and must be taken; then it is damaged
COUNT times. Prints what it is about to do, so that the last line says what a crash came
from, the damage or the program itself, and at the end how many were refused.
"""

import random
import re
import sys
from pathlib import Path

import knapper


WORDS = re.compile(rb"\s+|[\w.]+|->|.", re.S)
ODD = (b"-1", b"0", b"9223372036854775807", b"18446744073709551616", b"?", b"tensor<4x5xf32>", b"tensor<?xf32>", b"(", b")", b"[", b"]", b"<",
       b">", b"{", b"}", b'"', b"%arg0", b"@main", b"dense<0>", b"none", b"1.5", b"stablehlo.add", b"#stablehlo.dot<", b"index", b"i1")  # fmt: skip


def damaged_text(data, random):
    """Words that are left out, repeated, changed for another of the program or for an odd one."""
    words = WORDS.findall(data)
    if random.randrange(8) == 0:
        return b"".join(words[: random.randrange(1, len(words))])
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(words))
        words[at] = random.choice((b"", words[at] * 2, random.choice(words), random.choice(ODD), words[at] + b" " + random.choice(words)))
    return b"".join(words)


def damaged(data, random):
    if not data.startswith(b"ML\xefR"):
        return damaged_text(data, random)
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


def refusal(program, devices):
    """Why the import takes it not, or nothing. Up to the import alone: kernels are tested elsewhere."""
    try:
        knapper.compile(program, model_format="stablehlo", stop_after="import", devices=devices, cache=False)
    except knapper.Error as error:
        # MLIR's reader believes some counts, and LLVM refuses the memory.
        internal = isinstance(error, knapper.InternalError)
        assert not internal or "unable to grow" in str(error), error
        return "" if "before there was an artefact" in str(error) else str(error)
    return ""


def devices_of(name):
    return 4 if "devices" in name else 1


def inspected(program):
    """What the plugin asks first of a program for several devices."""
    try:
        return knapper.inspect(program, model_format="stablehlo")
    except knapper.Error as error:
        assert not isinstance(error, knapper.InternalError) or "unable to grow" in str(error), error
        return {}


def main():
    # Programs for several devices are taken where somebody runs them.
    knapper.register_operator("knapper.devices", "Exchange", compute=lambda *inputs, **parameters: None)
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    programs = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    for name, data in programs.items():
        print(name, "undamaged", flush=True)
        if why := refusal(data, devices_of(name)):
            sys.exit(f"{name} is refused undamaged: {why}")
        if "devices" in name:
            known = inspected(data)
            if "result_tiles" not in known or known["unsupported"]:
                sys.exit(f"{name} is in no parts, or has ops that are not known: {known}")
    refused = 0
    for name, data in programs.items():
        for i in range(seed, seed + count):
            print(name, i, flush=True)
            program = damaged(data, random.Random(i))
            refused += bool(refusal(program, devices_of(name)))
            if "devices" in name:
                inspected(program)
    print("refused", refused)


main()
