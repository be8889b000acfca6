"""Mistakes that checkers find: each line with a comment, and no other."""

from __future__ import annotations

import knapper

knapper.compile("m.onnx", treads=2)  # wrong
knapper.compile("m.onnx", dims={"batch": 1})  # wrong
knapper.load("m.knap", thread=1)  # wrong
knapper.compile("m.onnx", threads="two")  # wrong
knapper.compile("m.onnx", weights="int2")  # wrong
knapper.compile("m.onnx", verify_each="yes")  # wrong
knapper.compile("m.onnx", cache_bytes="10 GB")  # wrong
knapper.inspect("m.onnx", isas="x86-64-v3")  # wrong
knapper.verify("m.onnx", [], targets="cpu")  # wrong
knapper.quantize("m.onnx", calibrations=[])  # wrong
knapper.compil  # wrong
knapper.load("m.knap", verify="always")  # wrong
knapper.load(7)  # wrong
module = knapper.load("m.knap")
module.threads = 2  # wrong
module.treads  # wrong
module.start([]).wait("long")  # wrong
module.run([], cancel=True)  # wrong
module.bind([], flat=True)  # wrong
module([])["y"].shapes  # wrong
