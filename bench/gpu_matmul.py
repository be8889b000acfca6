#!/usr/bin/env python3
"""Times matrix products on an NVIDIA GPU against torch.matmul (cuBLAS).

    bench/gpu_matmul.py [--knapper PROGRAM] [--cases NAME,...] [--random N] [--seed S]
                        [--rounds R] [--json FILE] [--bars] [--compile-only FOLDER | --compiled FOLDER]

Needs the program, the runtime library that the Python package finds, torch with
CUDA, and a GPU; says which of them is missing and ends with 0 then.
--compile-only needs the program alone; what it leaves is measured elsewhere by
--compiled and the same cases.

Every case is compiled from a text of the tensor level. It runs twice:

- through the Python package, whose result must agree with torch's;
- for its time, its kernel is launched on torch's tensors as the artefact says
  (--dump-dir), in turns with torch on the same operands; short ones from graphs. Several sets of
  operands, more than the caches hold, take turns; they are random, since zeros
  are faster.

Printed for each: milliseconds and ratio to torch in bursts (3 ms after a pause)
and sustained (100 ms), medians of rounds timed by events; and the errors of both
against float64, relative to the norm. A case fails when its error is more than
1.05 times torch's (an error of 0.0001 always passes: float32). --bars also
fails cases slower than torch.
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
ERROR = 1.05
SMALL_ERROR = 1e-4
SHORT = 0.1  # milliseconds


class Case:
    """y = x w, or gelu(x w + bias): x [m, k], w [k, n] or, transposed, [n, k]."""

    def __init__(self, name, m, n, k, *, dtype="bf16", transposed=True, gelu=False):
        self.name, self.m, self.n, self.k = name, m, n, k
        self.dtype, self.transposed, self.gelu = dtype, transposed, gelu

    def folder(self):
        return re.sub(r"\W+", "_", self.name)

    def text(self):
        m, n, k, t = self.m, self.n, self.k, self.dtype
        w = f"{n}x{k}" if self.transposed else f"{k}x{n}"
        x, w, y, b = (f"tensor<{s}x{t}>" for s in (f"{m}x{k}", w, f"{m}x{n}", n))
        arguments = f"%x: {x}, %w: {w}" + (f", %b: {b}" if self.gelu else "")
        lines = [
            f"%0 = ts.dot %x, %w batch [] x [] contract [1] x "
            f"[{int(self.transposed)}] : {x}, {w}"
        ]
        result = "%0"
        if self.gelu:
            lines += [
                f"%1 = ts.broadcast %b [1] : {b} to {y}",
                f"%2 = ts.add %0, %1 : {y}",
                f"%3 = ts.gelu %2 : {y}",
            ]
            result = "%3"
        body = "\n    ".join(lines)
        return (
            f"module {{\n  func.func @main({arguments}) -> {y} {{\n    {body}\n"
            f"    return {result} : {y}\n  }}\n}}\n"
        )


CASES = [
    Case("8192^3", 8192, 8192, 8192),
    Case("8192x16384x4096", 8192, 16384, 4096),
    Case("4096x11008x4096", 4096, 11008, 4096),
    Case("4096^3", 4096, 4096, 4096),
    Case("4096^3 k-major", 4096, 4096, 4096, transposed=False),
    Case("linear+gelu", 8192, 16384, 4096, gelu=True),
    Case("4096^3 f16", 4096, 4096, 4096, dtype="f16"),
    Case("decode 16384x4096", 1, 16384, 4096),
    Case("decode 4096x4096", 1, 4096, 4096),
    Case("decode 128256x2048", 1, 128256, 2048),
    Case("decode 4 of 4096x11008", 4, 4096, 11008),
    Case("1024x4099x4099", 1024, 4099, 4099),
    Case("4096x4095x4097 k-major", 4096, 4095, 4097, transposed=False),
    Case("2048^3 f32", 2048, 2048, 2048, dtype="f32"),
    Case("1000x1111x777 f32", 1000, 1111, 777, dtype="f32", transposed=False),
]


def random_cases(count, seed):
    """Shapes by the logarithm: m 16..8192, n and k 256..16384, every fourth with
    columns or depth that are no multiple of 8."""
    r = random.Random(seed)

    def size(low, high, step):
        return max(low, round(low * (high / low) ** r.random() / step) * step)

    cases = []
    for i in range(count):
        step = 1 if i % 4 == 3 else 8
        m, n, k = size(16, 8192, 1), size(256, 16384, step), size(256, 16384, step)
        transposed = r.random() < 0.5
        name = f"{m}x{n}x{k}" + ("" if transposed else " k-major")
        cases.append(Case(name, m, n, k, transposed=transposed))
    return cases


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
                {"f32": 7, "f16": 6, "bf16": 9}[m.get("dtype", "f32")],
                [values[v] for v in m["sizes"]],
                [values[v] for v in m["strides"]],
                m["box"],
                m.get("swizzle", 0),
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
        for argument, dtype, sizes, strides, box, swizzle in self.maps:
            memory = (ctypes.c_uint8 * 192)()
            address = (ctypes.addressof(memory) + 63) & ~63
            rank, tensor = len(sizes), tensors[argument]
            size = tensor.element_size()
            self.check(
                self.driver.cuTensorMapEncodeTiled(
                    c_void_p(address), c_int(dtype), c_uint(rank),
                    c_void_p(tensor.data_ptr()), (c_uint64 * rank)(*sizes),
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
    def __init__(self, options, torch, knapper):
        self.options, self.torch, self.knapper = options, torch, knapper
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.folder = options.compiled or Path(tempfile.mkdtemp(prefix="gpu-matmul-"))

    def compile(self, case):
        folder = self.folder / case.folder()
        return folder, 0.0 if self.options.compiled else compiled(
            case, self.options.knapper, folder)

    def operands(self, case, seed):
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(seed)
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}

        def draw(*shape):
            return torch.randn(*shape, device="cuda", generator=generator)

        w = draw(case.n, case.k) if case.transposed else draw(case.k, case.n)
        tensors = [draw(case.m, case.k), w * case.k**-0.5]
        if case.gelu:
            tensors.append(draw(case.n))
        return [t.to(dtype[case.dtype]) for t in tensors]

    def torch_result(self, case, x, w, b=None, out=None):
        torch = self.torch
        w = w.t() if case.transposed else w
        if not case.gelu:
            return torch.matmul(x, w, out=out)
        y = torch.nn.functional.linear(x, w.t(), b)
        return torch.nn.functional.gelu(y)

    def error(self, result, case, operands):
        """Norm of the difference from float64, relative; by rows, to save memory."""
        x, w, *b = operands
        w = (w.t() if case.transposed else w).double()
        wrong = total = 0.0
        for i in range(0, case.m, 1024):
            exact = x[i : i + 1024].double() @ w
            if b:
                exact = self.torch.nn.functional.gelu(exact + b[0].double())
            wrong += (result[i : i + 1024].double() - exact).square().sum().item()
            total += exact.square().sum().item()
        return (wrong / total) ** 0.5

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
        if min(guess) < SHORT:
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
                        functions[i](0)
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

    def run(self, case):
        torch = self.torch
        folder, seconds = self.compile(case)
        operands = self.operands(case, 1)
        wanted = self.torch_result(case, *operands)
        ours = {}
        module = self.knapper.load(str(folder / "case.knap"))
        host = [t.cpu() for t in operands]
        ours["package"] = torch.from_dlpack(module(*host).tensor(0)).cuda()
        kernel = Kernel(self.driver, folder, torch)
        result = torch.full_like(wanted, float("nan"))
        kernel.bind([*operands, result])()
        torch.cuda.synchronize()
        ours["kernel"] = result
        peer = self.error(wanted, case, operands)
        errors = {how: self.error(y, case, operands) for how, y in ours.items()}
        bound = max(SMALL_ERROR if case.dtype == "f32" else 0, ERROR * peer)
        good = all(e <= bound for e in errors.values())
        row = {"case": case.name, "schedule": kernel.label, "compile_s": seconds,
               "error": errors, "torch_error": peer, "right": good}
        line = f"{case.name:24s} {'right' if good else 'WRONG'} " + " ".join(
            f"{e:.2e}" for e in (*errors.values(), peer))
        if good and not self.options.check:
            del ours, result, wanted
            size = operands[0].element_size()
            bytes_ = size * (case.m * case.k + case.n * case.k + case.m * case.n)
            count = max(2, min(8, int(2.5e8 / bytes_) + 1))
            sets = [self.operands(case, 2 + i) for i in range(count)]
            outs = [torch.empty(case.m, case.n, device="cuda", dtype=operands[0].dtype)
                    for _ in sets]
            launches = [kernel.bind([*s, o]) for s, o in zip(sets, outs)]
            functions = [
                lambda i: launches[i % count](),
                lambda i: self.torch_result(case, *sets[i % count], out=None if case.gelu else outs[i % count]),
            ]
            if case.gelu:
                functions.append(
                    lambda i: torch._addmm_activation(
                        sets[i % count][2], sets[i % count][0],
                        sets[i % count][1].t(), use_gelu=True))
            burst, sustained = self.medians(functions)
            flops = 2e-9 * case.m * case.n * case.k
            row.update(burst_ms=burst, sustained_ms=sustained,
                       burst_ratio=min(burst[1:]) / burst[0],
                       sustained_ratio=min(sustained[1:]) / sustained[0])
            line += (
                f"  burst {burst[0]:.4f} ms {flops / burst[0]:6.1f} TF x{row['burst_ratio']:.3f}"
                f"  sustained {sustained[0]:.4f} ms {flops / sustained[0]:6.1f} TF "
                f"x{row['sustained_ratio']:.3f}"
            )
            if self.options.bars:
                row["fast"] = max(row["burst_ratio"], row["sustained_ratio"]) >= BAR
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--knapper", default=None, help="the program")
    parser.add_argument("--cases", default=None, help="names, comma separated")
    parser.add_argument("--random", type=int, default=0, help="random shapes, how many")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sustained", type=float, default=100, help="milliseconds")
    parser.add_argument("--check", action="store_true", help="no times")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--compile-only", type=Path, metavar="FOLDER")
    parser.add_argument("--compiled", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    cases = CASES
    if options.cases is not None:
        names = options.cases.split(",")
        cases = [c for c in cases if c.name in names]
    cases = cases + random_cases(options.random, options.seed)
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

    bench = Bench(options, torch, knapper)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; errors: package, "
          "kernel, torch")
    rows = [bench.run(case) for case in cases]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    failed = [r["case"] for r in rows if not r["right"] or not r.get("fast", True)]
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
