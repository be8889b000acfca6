"""The child processes of the sweep: one compiles, one compiles and runs on the CPU, one runs on
the GPU. Each reads a request a line and answers with a line, so that a crash costs one case.

    python execute.py compile | cpu | cuda
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]


def exported(case: Any, folder: Path) -> tuple[Any, Path, str]:
    """What was built, its file, and why torch could not export it ("" where it could)."""
    from drawn import sweep_case

    built = sweep_case.build(case)
    path = folder / f"{os.getpid()}.onnx"
    try:
        sweep_case.export(case, built, path)
    except Exception as error:  # the exporter's, which is not what is tested
        return built, path, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return built, path, ""


def compile_case(case: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Compiles for the GPU into the file that the request names."""
    import knapper

    _, path, refused = exported(case, Path(request["folder"]))
    if refused:
        return {"status": "not exported", "why": refused}
    begin = time.perf_counter()
    try:
        knapper.compile(path, target=request["target"], threads=1, cache=False, output=request["artefact"])
    except knapper.DeviceError:
        if not Path(request["artefact"]).exists():
            raise
    except knapper.UserError as error:
        return {"status": "refused", "why": str(error)[:400]}
    return {"status": "compiled", "compile_s": time.perf_counter() - begin}


def run_cuda(case: Any, request: dict[str, Any]) -> dict[str, Any]:
    import knapper
    import torch
    from drawn import check, sweep_case
    from drawn.timing import CudaTimes

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    built = sweep_case.build(case)
    dtype = sweep_case.DTYPES[case.dtype]
    module = knapper.load(request["artefact"])
    net = built.module.to("cuda", dtype)

    def judged(draw: int) -> Any:
        inputs = sweep_case.values(built, dtype, "cuda", 5 + draw)
        wanted = check.exact(built, inputs)
        got = torch.from_dlpack(module(*inputs).tensor(0)).to("cuda")
        return check.judge(got, net(*inputs), wanted, built, inputs)

    with torch.no_grad():
        verdict = check.decide(judged(0), judged)
        row = _row(verdict)
        if not verdict.right or not request["time"]:
            return row
        inputs = sweep_case.values(built, dtype, "cuda", 5)
        eager = net(*inputs)
        torch.cuda.empty_cache()
        times = CudaTimes()
        row["knapper_ms"], launches = times.own(module, inputs)
        row["launches"] = [f"{l['schedule']} {l['ns'] / 1e3:.1f}us" for l in launches]
        row["bytes"] = sum(t.numel() * t.element_size() for t in [*inputs, eager])
        peers = {"eager_ms": times.torch(lambda: net(*inputs))}
        if request["compile_peer"]:
            torch._dynamo.reset()
            compiled = torch.compile(net, dynamic=False)
            try:
                compiled(*inputs)
            except Exception as error:  # the peer's own: no row of ours
                row["torch_compile"] = f"{type(error).__name__}: {str(error)[:200]}"
            else:
                peers["torch_compile_ms"] = times.torch(lambda: compiled(*inputs))
        return row | peers | {"ratio": min(peers.values()) / row["knapper_ms"]}


def run_cpu(case: Any, request: dict[str, Any]) -> dict[str, Any]:
    import knapper
    import numpy as np
    import torch
    from drawn import as_written, check, other_sizes, sweep_case
    from drawn.timing import cpu_turns, torch_turns

    torch.set_num_threads(request["threads"])
    built, path, refused = exported(case, Path(request["folder"]))
    if refused:
        return {"status": "not exported", "why": refused}
    begin = time.perf_counter()
    try:
        module = knapper.compile(path, threads=request["threads"], cache=False)
    except knapper.UserError as error:
        return {"status": "refused", "why": str(error)[:400]}
    compile_s = time.perf_counter() - begin
    dtype = sweep_case.DTYPES[case.dtype]
    net = built.module.to(dtype)

    def judged(draw: int) -> Any:
        inputs = sweep_case.values(built, dtype, "cpu", 5 + draw)
        wanted = check.exact(built, inputs)
        got = torch.from_dlpack(module(*inputs).tensor(0))
        return check.judge(got, net(*inputs), wanted, built, inputs)

    with torch.no_grad():
        verdict = check.decide(judged(0), judged)
        if verdict.why == check.NOT_FINITE:
            inputs = sweep_case.values(built, dtype, "cpu", 5)
            if as_written.is_not_finite(path, inputs, torch.from_dlpack(module(*inputs).tensor(0))):
                return {"status": "not exported", "why": "the file's result is not finite, as ONNX's reference has it too"}
        if verdict.right:
            verdict = other_sizes.judged(case, built, path, module, net) or verdict
        row = _row(verdict) | {"compile_s": compile_s}
        if not verdict.right or not request["time"]:
            return row
        inputs = sweep_case.values(built, dtype, "cpu", 5)
        # Of the file's dtype, which is not always eager's: exporters widen some results.
        result = torch.from_dlpack(module(*inputs).tensor(0))
        bound = module.bind(inputs, [torch.empty_like(result)])
        eager_calls, before = torch_turns("eager", lambda: net(*inputs), request["threads"])
        calls = {"knapper": bound, **eager_calls}
        if dtype == torch.float32:
            if session := _onnxruntime(path, request["threads"]):
                feed = {i.name: np.asarray(v) for i, v in zip(session.get_inputs(), inputs)}
                calls["ort"] = lambda: session.run(None, feed)
        if request["compile_peer"]:
            compiled = torch.compile(net, dynamic=False)
            compiled(*inputs)
            calls["torch_compile"] = lambda: compiled(*inputs)
            before["torch_compile"] = before["eager"]
        times = cpu_turns(calls, request["seconds"], before)
    row |= {f"{name}_ms": value for name, value in times.items()}
    return row | {"ratio": min(v for n, v in times.items() if n != "knapper") / times["knapper"]}


def _row(verdict: Any) -> dict[str, Any]:
    row = dataclasses.asdict(verdict)
    del row["few"]
    return row | {"status": "right" if row.pop("right") else "wrong"}


def _onnxruntime(path: Path, threads: int) -> Any:
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception:  # not installed, or not taken: the row is left to the others
        return None


def main() -> int:
    kind = {"compile": compile_case, "cpu": run_cpu, "cuda": run_cuda}[sys.argv[1]]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not stand between the answers
    warnings.simplefilter("ignore")
    import logging

    logging.disable(logging.WARNING)
    from drawn.sweep_case import Case

    import knapper

    knapper.version()  # no library: no case can say anything
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = kind(Case(**request["case"]), request)
        except Exception as error:
            kind_of = type(error).__name__
            status = "refused" if kind_of == "UserError" else "internal"
            answer = {"status": status, "why": f"{kind_of}: {str(error)[:400]}"}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
