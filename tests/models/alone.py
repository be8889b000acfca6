"""A process of its own for a compile or a run, with nothing else to lean on.

    alone.py compile MODEL.onnx MODEL.knap
    alone.py run MODEL.knap FEED.npz RESULT.npz
    alone.py spawn                      (to see that the fence holds)

Starting a program ends the process (a seccomp filter), importing a peer is an
error. Prints JSON: the files mapped at the end, the peak of resident memory in
bytes (of this program image alone, unlike ru_maxrss) and what was planned; of a
run also the peak before the model is loaded and the bytes of inputs and outputs.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from importlib.abc import MetaPathFinder

PEERS = ("onnx", "onnxruntime", "torch", "tvm", "openvino", "jax", "tensorflow", "iree")


class NoPeers(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in PEERS:
            raise ImportError(f"{name} is a peer: the product stands alone")
        return None


def forbid_programs() -> None:
    """execve, execveat, fork and vfork kill the process; threads are allowed."""
    load_number = struct.pack("HBBI", 0x20, 0, 0, 0)  # BPF_LD | BPF_W | BPF_ABS
    calls = (59, 322, 57, 58)
    jumps = b"".join(
        struct.pack("HBBI", 0x15, len(calls) - i, 0, call)  # equal: to the kill
        for i, call in enumerate(calls)
    )
    allow = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    kill = struct.pack("HBBI", 0x06, 0, 0, 0x80000000)
    code = load_number + jumps + allow + kill
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(
        set_seccomp, filter_mode, ctypes.create_string_buffer(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


def peak_bytes() -> int:
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def mapped() -> list[str]:
    with open("/proc/self/maps") as file:
        return sorted({words[5] for line in file if len(words := line.split()) > 5})


def compile_model(model: str, artefact: str) -> dict:
    import knapper

    knapper.compile(model, threads=2, cache=False).save(artefact)
    return {}


def run(artefact: str, feed: str, result: str) -> dict:
    import numpy as np

    import knapper

    before = peak_bytes()
    module = knapper.load(artefact, threads=2)
    with np.load(feed) as file:
        inputs = {i.name: file[f"in.{i.name}"] for i in module.inputs}
    sizes = {
        dim: size
        for i in module.inputs
        for dim, size in zip(i.shape, inputs[i.name].shape, strict=True)
        if isinstance(dim, str)
    }
    planned = module.peak_memory(**sizes)
    outputs = module(inputs)
    peak = peak_bytes()
    results = {name: outputs[name] for name in outputs.keys()}
    np.savez(result, **results)
    arrays = sum(array.nbytes for array in (*inputs.values(), *results.values()))
    return {"planned": planned, "peak": peak, "before": before, "arrays": arrays}


def main() -> None:
    sys.meta_path.insert(0, NoPeers())
    forbid_programs()
    task, *arguments = sys.argv[1:]
    if task == "spawn":
        import subprocess

        subprocess.run(["/bin/true"])
    done = {"compile": compile_model, "run": run}[task](*arguments)
    print(json.dumps({"peak": peak_bytes(), "mapped": mapped()} | done))


if __name__ == "__main__":
    main()
