#!/usr/bin/env python3
"""Times attention on an NVIDIA GPU against torch's scaled_dot_product_attention.

    bench/gpu_attention.py [--knapper PROGRAM] [--cases NAME,...] [--rounds R] [--json FILE]
                           [--bars] [--check] [--compile-only FOLDER | --compiled FOLDER]

Needs the program, the runtime library that the Python package finds, torch with
CUDA, and a GPU; says which of them is missing and ends with 0 then.
--compile-only needs the program alone; what it leaves is measured elsewhere by
--compiled and the same cases.

Every case is compiled from a text of the tensor level. It runs twice:

- through the Python package (small cases only), whose result must be right;
- for its time, its kernel is launched on torch's tensors as the artefact says
  (--dump-dir), interleaved with each of torch's backends that takes the case, cuDNN
  among them, on the same operands; several sets of them take turns. Masks are
  prepared for torch before the time, in the smallest form that it takes, as
  booleans and as numbers to be added; FlexAttention has them as block masks.
  What is short runs from graphs on both sides.

Printed for each: milliseconds, TFLOP/s (4 B H S T D, half of it for causal) and
the ratio to the best backend, in bursts (3 ms after a pause) and sustained,
medians of rounds timed by events; and the errors of ours and of the backends
against float64, norm of the difference over the norm. A case fails when its
error is more than 1.05 times that of the best backend (0.0001 always passes:
float32). --bars also fails cases slower than the best backend.
"""

from __future__ import annotations

import re

from gpu_against_torch import ERROR, SMALL_ERROR, Bench, Kernel, arguments, named, run

SMALL = 1 << 22  # elements of q below which the package runs it, too


class Case:
    """q [b, h, s, d], k and v [b, g, t, d]; `mask`: None, "keys" (i1 [b, 1, 1, t])
    or "added" ([1, h, s, t])."""

    def __init__(self, name, b, h, s, d, *, g=None, t=None, dtype="bf16", causal=False,
                 mask=None, wide=False, timed=True):
        self.name, self.b, self.h, self.s, self.d = name, b, h, s, d
        self.g, self.t = g or h, t or s
        self.dtype, self.causal, self.mask, self.wide = dtype, causal, mask, wide
        self.timed = timed

    def folder(self):
        return re.sub(r"\W+", "_", self.name)

    def mask_type(self):
        if self.mask == "keys":
            return f"tensor<{self.b}x1x1x{self.t}xi1>"
        return f"tensor<1x{self.h}x{self.s}x{self.t}x{self.dtype}>"

    def text(self):
        q = f"tensor<{self.b}x{self.h}x{self.s}x{self.d}x{self.dtype}>"
        k = f"tensor<{self.b}x{self.g}x{self.t}x{self.d}x{self.dtype}>"
        arguments, mask = f"%q: {q}, %k: {k}, %v: {k}", ""
        if self.mask:
            arguments += f", %m: {self.mask_type()}"
            mask = f"mask %m : {self.mask_type()} "
        causal = "{causal = true} " if self.causal else ""
        return (
            f"module {{\n  func.func @main({arguments}) -> {q} {{\n"
            f"    %0 = ts.attention %q, %k, %v {mask}scale {self.d ** -0.5:.17g} {causal}: {q}, {k}, {k}\n"
            f"    return %0 : {q}\n  }}\n}}\n"
        )

    def flops(self):
        return 4 * self.b * self.h * self.s * self.t * self.d * (0.5 if self.causal else 1)


CASES = [
    Case("full", 4, 32, 4096, 128),
    Case("causal", 4, 32, 4096, 128, causal=True),
    Case("full 1024", 16, 32, 1024, 128),
    Case("causal 1024", 16, 32, 1024, 128, causal=True),
    Case("full 16384", 1, 32, 16384, 128),
    Case("causal 16384", 1, 32, 16384, 128, causal=True),
    Case("grouped causal", 4, 32, 4096, 128, g=8, causal=True),
    Case("full 64", 4, 32, 4096, 64),
    Case("causal 64", 4, 32, 4096, 64, causal=True),
    Case("f16 full", 4, 32, 4096, 128, dtype="f16"),
    Case("f16 causal 64", 4, 32, 4096, 64, dtype="f16", causal=True),
    Case("key mask", 4, 32, 4096, 128, mask="keys"),
    Case("added mask 64", 4, 32, 2048, 64, mask="added"),
    Case("bert", 32, 12, 128, 64),
    Case("bert key mask", 32, 12, 128, 64, mask="keys"),
    Case("gpt2", 8, 12, 1024, 64, causal=True),
    Case("gpt2 key mask", 8, 12, 1024, 64, causal=True, mask="keys"),
    Case("grouped key mask causal", 4, 32, 4096, 128, g=8, causal=True, mask="keys"),
    Case("f32 causal 64", 8, 12, 1024, 64, dtype="f32", causal=True),
    Case("f32 full", 2, 16, 1024, 128, dtype="f32"),
]


def check(*sizes, **more):
    return Case(*sizes, timed=False, **more)


CHECKS = [
    check("1000 grouped", 2, 4, 1000, 128, g=2),
    check("1000 causal", 2, 4, 1000, 128, g=2, causal=True),
    check("300x1000", 2, 4, 300, 128, t=1000),
    check("1x77", 2, 4, 9, 128, t=77),
    check("wide logits", 2, 4, 512, 128, wide=True),
    check("wide logits causal 64", 2, 4, 700, 64, wide=True, causal=True),
    check("777x777 64", 3, 5, 777, 64),
    check("129x129 causal 64 f16", 3, 5, 129, 64, dtype="f16", causal=True),
    check("head 96", 2, 3, 500, 96),
    check("head 80 causal", 2, 3, 500, 80, causal=True),
    check("head 40", 2, 3, 333, 40, dtype="f16"),
    check("head 32 key mask", 2, 3, 333, 32, mask="keys"),
    check("odd mask 128", 2, 3, 333, 128, t=335, mask="added"),
    check("even mask 64 causal", 2, 3, 334, 64, mask="added", causal=True),
    check("head 256", 1, 2, 300, 256),
    check("head 50 f16", 2, 3, 300, 50, dtype="f16", causal=True),
    check("f32 ragged", 2, 3, 301, 72, t=203, dtype="f32"),
    check("f32 key mask causal", 2, 3, 200, 64, dtype="f32", mask="keys", causal=True),
]


class Attention(Bench):
    graphs = True
    warm_ups = 2

    def __init__(self, options, torch, knapper):
        super().__init__(options, torch, knapper)
        backend = torch.nn.attention.SDPBackend
        self.backends = {
            "cudnn": backend.CUDNN_ATTENTION,
            "flash": backend.FLASH_ATTENTION,
            "efficient": backend.EFFICIENT_ATTENTION,
        }
        self.flex = None  # compiled when it is first needed

    def operands(self, case, seed):
        torch = self.torch
        generator, draw = self.drawing(case.dtype, seed)
        sharp = (4.0, 3.0) if case.wide else (1.0, 1.0)
        tensors = [
            draw(case.b, case.h, case.s, case.d, factor=sharp[0]),
            draw(case.b, case.g, case.t, case.d, factor=sharp[1]),
            draw(case.b, case.g, case.t, case.d),
        ]
        if case.mask == "keys":
            lengths = torch.randint(1, case.t + 1, (case.b, 1, 1, 1), device="cuda",
                                    generator=generator)
            tensors.append(torch.arange(case.t, device="cuda") < lengths)
        elif case.mask:
            tensors.append(draw(1, case.h, case.s, case.t))
        return tensors

    def exact(self, case, q, k, v, mask=None):
        torch, shares = self.torch, case.h // case.g
        result = torch.empty(q.shape, device="cuda", dtype=torch.float64)
        seen = torch.ones(case.s, case.t, dtype=torch.bool, device="cuda")
        if case.causal:
            seen = seen.tril(case.t - case.s)
        for b in range(case.b):
            for h in range(case.h):
                scores = q[b, h].double() @ k[b, h // shares].double().t() * case.d**-0.5
                if case.mask == "keys":
                    scores.masked_fill_(~mask[b, 0, 0], float("-inf"))
                elif case.mask:
                    scores += mask[0, h].double()
                if case.causal:
                    scores.masked_fill_(~seen, float("-inf"))
                result[b, h] = torch.softmax(scores, -1).nan_to_num_(0) @ v[b, h // shares].double()
        return result

    def masks(self, case, mask):
        """What torch's backends take for the case's mask, by name, with sizes of 1
        where it is the same: causality joins it, because torch takes one of the two."""
        torch = self.torch
        if mask is None:
            return {"": None}
        seen = None
        if case.causal:
            seen = torch.ones(case.s, case.t, dtype=torch.bool, device=mask.device).tril(case.t - case.s)
        if case.mask == "added":
            return {"": mask if seen is None else mask.masked_fill(~seen, float("-inf"))}
        kept = mask if seen is None else mask & seen
        kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[case.dtype]
        added = torch.zeros(kept.shape, dtype=kind, device=mask.device).masked_fill(~kept, float("-inf"))
        return {"": kept, " added": added}

    def flexible(self, case, q, k, v, mask):
        """FlexAttention over a block mask of the case's keys."""
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        kept, causal, offset = mask[:, 0, 0], case.causal, case.t - case.s

        def keep(b, h, row, key):
            return kept[b, key] & (row + offset >= key) if causal else kept[b, key]

        blocks = create_block_mask(keep, case.b, None, case.s, case.t, device=mask.device)
        if self.flex is None:
            self.flex = self.torch.compile(flex_attention, dynamic=False)
        return lambda: self.flex(q, k, v, block_mask=blocks, enable_gqa=case.g != case.h)

    def peers(self, case, q, k, v, mask=None):
        """Calls of torch for these operands, by name; what a backend does not take fails when it is called."""
        torch = self.torch

        def backend(which, form):
            def call():
                with torch.nn.attention.sdpa_kernel(which):
                    return torch.nn.functional.scaled_dot_product_attention(
                        q, k, v, attn_mask=form, is_causal=case.causal and mask is None,
                        enable_gqa=case.g != case.h)
            return call

        calls = {name + how: backend(which, form)
                 for name, which in self.backends.items()
                 for how, form in self.masks(case, mask).items()}
        if case.mask == "keys":
            calls["flex"] = self.flexible(case, q, k, v, mask)
        return calls

    @staticmethod
    def error(result, exact):
        return ((result.double() - exact).norm() / exact.norm()).item()

    def run(self, case):
        torch = self.torch
        folder, seconds = self.compile(case)
        operands = self.operands(case, 1)
        exact = self.exact(case, *operands)
        peers = {}
        for name, call in self.peers(case, *operands).items():
            if case.causal and case.s != case.t:
                continue  # torch's diagonal starts elsewhere
            try:
                peers[name] = self.error(call(), exact)
            except (RuntimeError, ValueError):
                pass  # the backend does not take it
        ours = {}
        if operands[0].numel() <= SMALL:
            ours["package"] = self.error(self.package(folder, operands), exact)
        kernel = Kernel(self.driver, folder, torch)
        result = self.launched(kernel, operands, operands[0])
        ours["kernel"] = self.error(result, exact)
        again = self.launched(kernel, operands, operands[0])
        same = torch.equal(result, again)
        del exact, again
        bound = SMALL_ERROR if case.dtype == "f32" else 5e-3
        if peers:
            bound = max(SMALL_ERROR if case.dtype == "f32" else 0, ERROR * min(peers.values()))
        good = same and all(e <= bound for e in ours.values())
        row = {"case": case.name, "schedule": kernel.label, "compile_s": seconds,
               "error": ours, "torch_error": peers, "right": good}
        line = f"{case.name:22s} {'right' if good else 'WRONG'} " + " ".join(
            f"{e:.2e}" for e in ours.values()) + " |" + "".join(
            f" {n} {e:.2e}" for n, e in peers.items())
        if case.timed and good and not self.options.check:
            sets = [operands, self.operands(case, 2)]
            outs = [torch.empty_like(s[0]) for s in sets]
            launches = [kernel.bind([*s, o]) for s, o in zip(sets, outs)]
            functions = [lambda i: launches[i % 2]()]
            calls = [self.peers(case, *s) for s in sets]
            functions += [lambda i, name=name: calls[i % 2][name]() for name in peers]
            line += self.measure(row, functions, case.flops())
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row


def main():
    options = arguments(__doc__, rounds=7, sustained=60).parse_args()
    run(options, named(CHECKS + CASES, options), Attention,
        "package (small cases), kernel | torch's backends")


if __name__ == "__main__":
    main()
