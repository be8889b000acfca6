#!/usr/bin/env python3
"""Times convolutions on an NVIDIA GPU against torch.nn.functional.conv2d (cuDNN).

    bench/gpu_conv.py [--knapper PROGRAM] [--cases NAME,...] [--rounds R] [--json FILE]
                      [--bars] [--check] [--compile-only FOLDER | --compiled FOLDER]

Needs the program, torch with CUDA, and a GPU; says which of them is missing and
ends with 0 then. --compile-only needs the program alone; what it leaves is
measured elsewhere by --compiled and the same cases.

Every case is compiled from a text of the tensor level, channels last; its
kernel is launched on torch's tensors as the artefact says (--dump-dir), interleaved
with torch on the same operands in its channels_last format, the fastest
of cuDNN's kernels (benchmark). Several sets of operands take turns.

Printed for each: the error of both against float64, norm of the difference over
the norm, of the first images; milliseconds, TFLOP/s and the ratio to torch in
bursts (3 ms after a pause) and sustained, medians of rounds timed by events.
A case fails when its error is more than 1.05 times torch's (0.0001 always
passes: float32). --bars also fails cases slower than torch.
"""

from __future__ import annotations

import re

from gpu_against_torch import ERROR, SMALL_ERROR, Bench, Kernel, arguments, named, run

IMAGES = 2  # whose error is measured


class Case:
    """x [n, size, size, c], filter [k, k, c / groups, f], the border k // 2."""

    def __init__(self, name, n, size, c, f, k, *, stride=1, groups=1, dtype="bf16"):
        self.name, self.n, self.size, self.c, self.f, self.k = name, n, size, c, f, k
        self.stride, self.groups, self.dtype = stride, groups, dtype
        self.out = (size + 2 * (k // 2) - k) // stride + 1

    def folder(self):
        return re.sub(r"\W+", "_", self.name)

    def text(self):
        x = f"tensor<{self.n}x{self.size}x{self.size}x{self.c}x{self.dtype}>"
        w = f"tensor<{self.k}x{self.k}x{self.c // self.groups}x{self.f}x{self.dtype}>"
        y = f"tensor<{self.n}x{self.out}x{self.out}x{self.f}x{self.dtype}>"
        pad = f"[#ts.dim<{self.k // 2}>, #ts.dim<{self.k // 2}>]"
        return (
            f"module {{\n  func.func @main(%x: {x}, %w: {w}) -> {y} {{\n"
            f"    %0 = ts.conv %x, %w strides [{self.stride}, {self.stride}] dilations [1, 1] "
            f"input_dilations [1, 1] low {pad} high {pad} "
            f"{{channels_last = true, groups = {self.groups} : i64}} : {x}, {w}\n"
            f"    return %0 : {y}\n  }}\n}}\n"
        )

    def flops(self):
        return 2 * self.n * self.out**2 * self.f * self.k**2 * self.c // self.groups


def layers(dtype):
    """Those of ResNet-50 that are no matmuls, some of other networks."""
    return [
        Case(f"stem 7x7 3-64 {dtype}", 32, 224, 3, 64, 7, stride=2, dtype=dtype),
        Case(f"3x3 64 56 {dtype}", 32, 56, 64, 64, 3, dtype=dtype),
        Case(f"3x3 128 56 by 2 {dtype}", 32, 56, 128, 128, 3, stride=2, dtype=dtype),
        Case(f"3x3 128 28 {dtype}", 32, 28, 128, 128, 3, dtype=dtype),
        Case(f"3x3 256 14 {dtype}", 32, 14, 256, 256, 3, dtype=dtype),
        Case(f"3x3 512 7 {dtype}", 32, 7, 512, 512, 3, dtype=dtype),
        Case(f"1x1 256-512 56 by 2 {dtype}", 32, 56, 256, 512, 1, stride=2, dtype=dtype),
        Case(f"3x3 256 56 {dtype}", 32, 56, 256, 256, 3, dtype=dtype),
        Case(f"3x3 512 64 {dtype}", 8, 64, 512, 512, 3, dtype=dtype),
        Case(f"groups of 32 28 {dtype}", 32, 28, 256, 256, 3, groups=8, dtype=dtype),
        Case(f"depthwise 3x3 96 112 by 2 {dtype}", 32, 112, 96, 96, 3, stride=2, groups=96, dtype=dtype),
        Case(f"depthwise 3x3 384 14 {dtype}", 32, 14, 384, 384, 3, groups=384, dtype=dtype),
    ]


CASES = layers("bf16") + layers("f32") + [Case("3x3 128 28 f16", 32, 28, 128, 128, 3, dtype="f16")]


class Convolutions(Bench):
    graphs = True

    def operands(self, case, seed):
        _, draw = self.drawing(case.dtype, seed)
        depth = case.k**2 * case.c // case.groups
        return [
            draw(case.n, case.size, case.size, case.c),
            draw(case.k, case.k, case.c // case.groups, case.f, factor=depth**-0.5),
        ]

    def in_torch(self, case, x, w):
        """x [n, c, h, w] and filter [f, c, k, k], both in torch's channels_last."""
        x = x.permute(0, 3, 1, 2)
        w = w.permute(3, 2, 0, 1).contiguous(memory_format=self.torch.channels_last)
        return x, w

    def torch_result(self, case, x, w):
        return self.torch.nn.functional.conv2d(
            x, w, stride=case.stride, padding=case.k // 2, groups=case.groups)

    def error(self, result, exact):
        return ((result.double() - exact).norm() / exact.norm()).item()

    def run(self, case):
        torch = self.torch
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        folder, seconds = self.compile(case)
        x, w = self.operands(case, 1)
        theirs = [self.in_torch(case, x, w)]
        exact = self.torch_result(case, *(t.double() for t in self.in_torch(case, x[:IMAGES], w)))
        exact = exact.permute(0, 2, 3, 1)
        got = self.torch_result(case, *theirs[0]).permute(0, 2, 3, 1)
        kernel = Kernel(self.driver, folder, torch)
        result = self.launched(kernel, (x, w), torch.empty(got.shape, dtype=got.dtype, device="cuda"))
        same = torch.equal(result, self.launched(kernel, (x, w), result))
        errors = self.error(result[:IMAGES], exact), self.error(got[:IMAGES], exact)
        # The images whose error is not measured agree with torch's.
        apart = self.error(result, got.double())
        good = (same and errors[0] <= max(ERROR * errors[1], SMALL_ERROR if case.dtype == "f32" else 0)
                and apart <= max(3 * errors[1], SMALL_ERROR))
        row = {"case": case.name, "schedule": kernel.label, "compile_s": seconds,
               "error": errors[0], "torch_error": errors[1], "apart": apart, "right": good}
        line = f"{case.name:32s} {'right' if good else 'WRONG'} {errors[0]:.2e} | {errors[1]:.2e}"
        if good and not self.options.check:
            sets = [(x, w), tuple(self.operands(case, 2))]
            theirs.append(self.in_torch(case, *sets[1]))
            outs = [torch.empty_like(result) for _ in sets]
            launches = [kernel.bind([*s, o]) for s, o in zip(sets, outs)]
            line += self.measure(
                row,
                [lambda i: launches[i % 2](), lambda i: self.torch_result(case, *theirs[i % 2])],
                case.flops())
        print(f"{line}  {kernel.label}", flush=True)
        torch.cuda.empty_cache()
        return row


def main():
    options = arguments(__doc__, rounds=7, sustained=40).parse_args()
    run(options, named(CASES, options), Convolutions, "kernel | torch")


if __name__ == "__main__":
    main()
