#!/usr/bin/env python3
"""From exec of `knapper serve` to the first token over HTTP, the code in the compile cache.

    bench/serve_start.py FOLDER [--runs 7] [--server KNAPPER]... [--json FILE] [--bars] [-- FLAGS OF knapper serve]

A start that is not counted fills the cache and the page cache. Several --server take turns, so that all see the same
machine. Printed for each: median and least of exec to the address and to the first token, and of the processor time of
the process until then. --bars fails the command where the first server's least time to the first token is above 0.5 s.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))
BAR = 0.5


def processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(server: str, folder: str, flags: list[str]) -> dict[str, float]:
    begun = time.perf_counter()
    process = subprocess.Popen([server, "serve", folder, "--port", "0", *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        found = re.search(r"at http://([\d.]+):(\d+)", process.stdout.readline())
        if not found:
            raise SystemExit(f"{server} does not serve {folder}")
        ready = time.perf_counter() - begun
        connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=60)
        body = {"prompt": "The capital of France is", "max_tokens": 1, "temperature": 0}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        token = time.perf_counter() - begun
        if answer.status != 200:
            raise SystemExit(f"the first request was answered with {answer.status}: {text!r}")
        return {"ready": ready, "first token": token, "processor": processor_time(process.pid)}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main() -> int:
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--server", action="append")
    parser.add_argument("--json")
    parser.add_argument("--bars", action="store_true")
    arguments = parser.parse_args(given[:at])
    flags = given[at + 1 :]
    servers = arguments.server or [str(BUILD / "bin" / "knapper")]
    seen: dict[str, list[dict[str, float]]] = {server: [] for server in servers}
    for turn in range(arguments.runs + 1):
        for server in servers:
            run = start(server, arguments.folder, flags)
            if turn > 0:
                seen[server].append(run)
    for server, runs in seen.items():
        print(server)
        for what in runs[0]:
            values = [run[what] for run in runs]
            print(f"  {what:12} median {statistics.median(values):.3f} s, least {min(values):.3f} s")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(seen))
    return int(arguments.bars and min(run["first token"] for run in seen[servers[0]]) > BAR)


if __name__ == "__main__":
    sys.exit(main())
