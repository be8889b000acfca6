"""What the benches of one GPU kernel against torch's share.

A case is compiled from a text of the tensor level (`name`, `folder()`, `text()`);
its one kernel is launched on torch's tensors as the artefact says (--dump-dir),
interleaved with torch on the same operands.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from ctypes import c_int, c_uint, c_uint64, c_void_p
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

BAR = 1.0
ERROR = 1.05  # times that of torch
SMALL_ERROR = 1e-4  # passes for float32
SHORT = 0.1  # milliseconds


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(0)


class Kernel:
    """The one kernel of a case, as the artefact's dump describes its launch."""

    def __init__(self, driver, folder, torch):
        self.driver, self.torch = driver, torch
        program = json.loads((folder / "07_plan.json").read_text())
        launches = [
            i["instruction"]
            for region in program["regions"]
            for i in region["instructions"]
            if i["instruction_type"] == "Launch"
        ]
        if len(launches) != 1:
            raise SystemExit(f"{folder}: {len(launches)} launches instead of one")
        values = self.values(program["values"])
        choice = next(c for c in launches[0]["choices"] if values[c.get("guard", 0)])
        if choice.get("symbols"):
            raise SystemExit(f"{folder}: sizes are not fixed")
        self.label = choice["label"]
        entries = re.findall(
            r"(\w+) = (\d+) : i64", (folder / "06_emit.mlir").read_text().split("ts.entries")[-1]
        )
        number = launches[0]["choices"].index(choice)
        name, entry = next(
            (n, int(e)) for n, e in entries
            if len(entries) == 1 or n.endswith(f"_{number}")
        )
        # runtime/base/GpuEntry.h
        self.threads, programs = entry & 0xFFFF, entry >> 16 & 0xFFFF
        self.shared, per = entry >> 32 & 0xFFFFFF, entry >> 56
        self.programs = values[choice.get("grid", 0)]
        grid = -(-self.programs // max(1, programs))
        if per:
            device = torch.cuda.get_device_properties(0)
            grid = min(grid, per * device.multi_processor_count)
        self.grid = grid
        self.maps = [
            (
                m.get("arg", 0),
                {"f32": 11 if m.get("tf32") else 7, "f16": 6, "bf16": 9}[m.get("dtype", "f32")],
                [values[v] for v in m["sizes"]],
                [values[v] for v in m["strides"]],
                m["box"],
                m.get("swizzle", 0),
                values[m["offset"]] if "offset" in m else 0,
            )
            for m in choice.get("maps", [])
        ]
        image = next(folder.glob("06_emit.*.elf")).read_bytes() + b"\0"
        module = c_void_p()
        self.check(driver.cuModuleLoadData(ctypes.byref(module), image))
        self.function = c_void_p()
        self.check(
            driver.cuModuleGetFunction(ctypes.byref(self.function), module, name.encode())
        )
        if self.shared:
            self.check(driver.cuFuncSetAttribute(self.function, 8, c_int(self.shared)))
        self.status = torch.zeros(1, dtype=torch.int32, device="cuda")

    @staticmethod
    def values(scalars):
        import operator as o

        ops = {
            "add": o.add, "sub": o.sub, "mul": o.mul, "floordiv": o.floordiv,
            "ceildiv": lambda a, b: -(-a // b), "mod": o.mod, "min": min, "max": max,
            "eq": o.eq, "ne": o.ne, "lt": o.lt, "le": o.le,
            "logical_and": lambda a, b: bool(a and b),
            "logical_or": lambda a, b: bool(a or b),
        }
        values = []
        for s in scalars:
            op = s.get("op", "constant")
            if op == "constant":
                values.append(s.get("imm", 0))
            elif op == "symbol":
                raise SystemExit("sizes are not fixed")
            else:
                values.append(int(ops[op](values[s["a"]], values[s["b"]])))
        return values

    def check(self, code):
        if code:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise SystemExit(f"CUDA: {text.value} ({code})")

    def bind(self, tensors):
        """A function that launches the kernel on these tensors."""
        keep = [c_uint64(t.data_ptr()) for t in tensors]
        keep += [c_uint64(self.status.data_ptr()), c_uint64(self.programs)]
        parameters = [ctypes.cast(ctypes.byref(v), c_void_p) for v in keep]
        for argument, dtype, sizes, strides, box, swizzle, offset in self.maps:
            memory = (ctypes.c_uint8 * 192)()
            address = (ctypes.addressof(memory) + 63) & ~63
            rank, tensor = len(sizes), tensors[argument]
            size = tensor.element_size()
            self.check(
                self.driver.cuTensorMapEncodeTiled(
                    c_void_p(address), c_int(dtype), c_uint(rank),
                    c_void_p(tensor.data_ptr() + offset * size), (c_uint64 * rank)(*sizes),
                    (c_uint64 * rank)(*[s * size for s in strides]),
                    (c_uint * rank)(*box), (c_uint * rank)(*[1] * rank), c_int(0),
                    c_int({0: 0, 32: 1, 64: 2, 128: 3}[swizzle]), c_int(2), c_int(0),
                )
            )
            keep.append(memory)
            parameters.append(c_void_p(address))
        array = (c_void_p * len(parameters))(*parameters)

        def launch(keep=(keep, tensors)):
            stream = c_void_p(self.torch.cuda.current_stream().cuda_stream)
            code = self.driver.cuLaunchKernel(
                self.function, self.grid, 1, 1, self.threads, 1, 1, self.shared,
                stream, array, None,
            )
            if code:
                self.check(code)

        return launch


def compiled(case, program, folder):
    """Makes the folder; returns seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "case.mlir"
    model.write_text(case.text())
    command = [program, "compile", model, "-o", folder / "case.knap", "--target",
               "cuda", "--start-from", "simplify", f"--dump-dir={folder}"]
    start = time.perf_counter()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env=os.environ | {"KNAPPER_CACHE": "off"})
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stdout}{done.stderr}")
    return time.perf_counter() - start


class Bench:
    """Runs cases; `run(case)`, which the kinds of kernel define, gives a row of
    figures with "case", "right" and, with --bars, "fast"."""

    graphs = False  # whether what is short is launched from graphs
    warm_ups = 1  # calls before a burst

    def __init__(self, options, torch, knapper):
        self.options, self.torch, self.knapper = options, torch, knapper
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.folder = options.compiled or Path(tempfile.mkdtemp(prefix="gpu-bench-"))

    def compile(self, case):
        """The folder, and the seconds that compiling took."""
        folder = self.folder / case.folder()
        if self.options.compiled:
            return folder, 0.0
        return folder, compiled(case, self.options.knapper, folder)

    def drawing(self, dtype, seed):
        """A generator, and a function that gives the dtype's normal tensor of a shape."""
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(seed)
        kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]

        def draw(*shape, factor=1.0):
            drawn = torch.randn(*shape, device="cuda", generator=generator)
            return (drawn * factor).to(kind)

        return generator, draw

    def package(self, folder, operands):
        """The result through the Python package."""
        module = self.knapper.load(str(folder / "case.knap"))
        host = [t.cpu() for t in operands]
        return self.torch.from_dlpack(module(*host).tensor(0)).cuda()

    def launched(self, kernel, operands, like):
        """The result of the kernel alone."""
        result = self.torch.full_like(like, float("nan"))
        kernel.bind([*operands, result])()
        self.torch.cuda.synchronize()
        return result

    def measure(self, row, functions, flops, aside=(), bar=BAR):
        """Times of ours and then torch's go into the row; what is to be printed of them.
        With --bars the smaller of the two ratios counts.
        `aside`: what computes nearly the same; its ratios are given, and count for nothing."""
        burst, sustained = self.medians([*functions, *aside])
        beside = [(b / burst[0], s / sustained[0])
                  for b, s in zip(burst[len(functions):], sustained[len(functions):])]
        row["aside_ratios"] = beside
        burst, sustained = burst[: len(functions)], sustained[: len(functions)]
        row.update(burst_ms=burst, sustained_ms=sustained,
                   burst_ratio=min(burst[1:]) / burst[0],
                   sustained_ratio=min(sustained[1:]) / sustained[0])
        if self.options.bars:
            row["fast"] = min(row["burst_ratio"], row["sustained_ratio"]) >= bar
        tera = flops * 1e-9
        return (
            f"  burst {burst[0]:.4f} ms {tera / burst[0]:6.1f} TF x{row['burst_ratio']:.3f}"
            f" (torch {' '.join(f'{t:.4f}' for t in burst[1:])})"
            f"  sustained {sustained[0]:.4f} ms {tera / sustained[0]:6.1f} TF "
            f"x{row['sustained_ratio']:.3f}"
            + "".join(f"  aside: burst x{b:.3f} sustained x{s:.3f}" for b, s in beside)
        )

    def timed(self, function, count):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(count):
            function(i)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count

    def medians(self, functions):
        """Median milliseconds of each function, in bursts and sustained."""
        guess, calls = [], 1
        for function in functions:
            self.timed(function, 3)
            guess.append(self.timed(function, 5))
        if self.graphs and min(guess) < SHORT:
            # Launching takes longer than running: graphs of many launches.
            calls = 32
            functions = [self.graph(function, calls) for function in functions]
            guess = [self.timed(function, 3) for function in functions]
        result = []
        for milliseconds, pause in ((3, 0.025), (self.options.sustained, 0)):
            times = [[] for _ in functions]
            for round_ in range(self.options.rounds):
                order = list(range(len(functions)))
                random.Random(round_).shuffle(order)
                for i in order:
                    if pause:
                        time.sleep(pause)
                        for number in range(self.warm_ups):
                            functions[i](number)
                    count = max(3, int(milliseconds / guess[i]))
                    times[i].append(self.timed(functions[i], count))
            result.append([statistics.median(t) / calls for t in times])
        return result

    def graph(self, function, calls):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for i in range(calls):
                function(i)
        return lambda i: graph.replay()


def arguments(text, *, rounds, sustained):
    """The parser of a bench, whose module's text is given, with its defaults."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("--knapper", default=None, help="the program")
    parser.add_argument("--cases", default=None, help="names, comma separated")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--sustained", type=float, default=sustained, help="milliseconds")
    parser.add_argument("--check", action="store_true", help="no times")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--compile-only", type=Path, metavar="FOLDER")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    return parser


def named(cases, options):
    """Those of the cases that --cases names; all without it."""
    if options.cases is None:
        return list(cases)
    names = options.cases.split(",")
    return [case for case in cases if case.name in names]


def run(options, cases, kind, errors):
    """Runs the cases, or compiles them, as the options say. `kind`: the Bench;
    `errors`: what the errors that it prints are of."""
    places = [options.knapper] if options.knapper else [
        ROOT / "bin/knapper", ROOT / "build/release/bin/knapper", ROOT / "build/dev/bin/knapper"]
    options.knapper = next((p for p in places if Path(p).exists()), None)
    if options.knapper is None and not options.compiled:
        skip("there is no knapper program: build it, or say --knapper")
    if options.compile_only:
        for case in cases:
            seconds = compiled(case, options.knapper, options.compile_only / case.folder())
            print(f"{case.name}: {seconds:.3f} s")
        return
    try:
        import torch
    except ImportError:
        skip("torch is not installed")
    if not torch.cuda.is_available():
        skip("torch sees no GPU")
    if torch.cuda.get_device_capability() < (9, 0):
        skip("the GPU is older than sm_90")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    import knapper

    bench = kind(options, torch, knapper)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; errors: {errors}")
    rows = [bench.run(case) for case in cases]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    failed = [r["case"] for r in rows if not r["right"] or not r.get("fast", True)]
    if failed:
        sys.exit("failed: " + ", ".join(failed))

