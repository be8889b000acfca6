"""Runs the corpus: one program an op, a type and an edge, each beside what it should give.

    python corpus_run.py [--form bytecode|pretty|generic] [--match TEXT] [--every N] [--table FILE.json]

Processes of its own run the programs: one that dies is reported with the program
that it died of, and the rest goes on. Exit status 1 where one is wrong or died.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]


def outcome(program, form: str) -> tuple[str, str]:
    import numpy as np

    import knapper
    from corpus import compare, reference

    wanted = list(program.expected) if program.expected is not None else None
    if wanted is None:
        try:
            wanted = reference.evaluate(program)
        except Exception as error:
            return "no reference", str(error).strip().splitlines()[0]
    try:
        if form == "bytecode":
            model = reference.serialised(program)
        else:
            model = reference.printed(program, generic=form == "generic").encode()
    except Exception as error:
        return "no reference", str(error).strip().splitlines()[0]
    try:
        module = knapper.compile(model, cache=False, threads=1, model_format="stablehlo")
    except knapper.UserError as error:
        return "refused", str(error)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    # These programs and arguments are right: a run that refuses them is a bug.
    try:
        arguments = [
            np.stack([a.real, a.imag], -1) if a.dtype.kind == "c" else a for a in program.arguments
        ]
        given = module(*arguments)
        outputs = [np.asarray(given[i]) for i in range(len(given))]
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    different = compare.difference(program, outputs, wanted)
    return ("wrong", different) if different else ("right", "")


def chosen(match: str, every: int) -> list:
    from corpus.collect import everything

    return [p for p in everything() if match in p.name][::every]


def worker(form: str, match: str, every: int, start: int, step: int) -> None:
    for i, program in list(enumerate(chosen(match, every)))[start::step]:
        print(json.dumps({"begin": i}), flush=True)
        kind, why = outcome(program, form)
        print(json.dumps({"end": i, "name": program.name, "op": program.op, "element": program.element, "outcome": kind, "why": why}), flush=True)


def run_shard(arguments: list[str], shard: int, shards: int) -> list[dict]:
    found, start = [], shard
    while True:
        command = [sys.executable, __file__, *arguments, "--worker", f"{start}:{shards}"]
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
        found += [line for line in lines if "end" in line]
        open_ = [line["begin"] for line in lines if "begin" in line]
        if process.returncode == 0:
            return found
        if not open_:
            raise RuntimeError(process.stderr)
        found.append({"end": open_[-1], "name": "", "outcome": "died", "why": process.stderr.strip()[-300:], "op": "", "element": ""})
        start = open_[-1] + shards


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=("bytecode", "pretty", "generic"), default="bytecode")
    parser.add_argument("--match", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--worker")
    given = parser.parse_args()
    os.environ["KNAPPER_CACHE"] = "off"
    if given.worker:
        start, step = map(int, given.worker.split(":"))
        worker(given.form, given.match, given.every, start, step)
        return 0
    from concurrent.futures import ThreadPoolExecutor

    arguments = ["--form", given.form, "--match", given.match, "--every", str(given.every)]
    with ThreadPoolExecutor(given.shards) as pool:
        shards = pool.map(lambda i: run_shard(arguments, i, given.shards), range(given.shards))
    results = sorted((each for shard in shards for each in shard), key=lambda each: each["end"])
    programs = chosen(given.match, given.every)
    for each in results:
        program = programs[each["end"]]
        each.update(name=program.name, op=program.op, element=program.element)
        if each["outcome"] not in ("right", "refused"):
            print(f"{each['outcome']}: {each['name']}: {each['why']}")
    if given.table:
        given.table.write_text(json.dumps(results, indent=0))
    counts = collections.Counter(each["outcome"] for each in results)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), "of", len(results))
    return 1 if counts["wrong"] or counts["died"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
