#!/usr/bin/env python3
"""The engine's speed on an NVIDIA GPU, without HTTP: decoding by batch, prompts, the start.

    python3 bench/serve_gpu.py [--layers 32] [--folder DIR] [--dtype bf16] [--batches 1,32,256] [--json]

Makes a model of the shape of Llama-3.1-8B with drawn bf16 weights (16 GB in DIR, kept for the next run), loads it twice (the
second time compiled already) and runs requests of drawn tokens: `--held` in, `--steps` out, greedy. Needs the engine_requests of
the build (KNAPPER_BUILD) and torch with a GPU, which draws the weights.

Limits: a step reads all weights (of --dtype i8 and i4 the integers and their scales) but the table of embeddings and 2 x layers x key heads x head x 2 bytes a held token; --read is
the card's reading speed in GB/s (bench/peaks measures it).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

BUILD = Path(os.environ.get("KNAPPER_BUILD", Path(__file__).parents[1] / "build" / "dev"))
LLAMA = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
    num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072, rms_norm_eps=1e-5, hidden_act="silu",
    rope_theta=500000.0, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, torch_dtype="bfloat16",
    bos_token_id=128000, eos_token_id=128001,
)


def tensors(config):
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["hidden_size"] // config["num_attention_heads"]
    keys = config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        for name, shape in [
                ("input_layernorm", (width,)), ("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (keys, width)),
                ("self_attn.v_proj", (keys, width)), ("self_attn.o_proj", (width, width)), ("post_attention_layernorm", (width,)),
                ("mlp.gate_proj", (inner, width)), ("mlp.up_proj", (inner, width)), ("mlp.down_proj", (width, inner))]:
            yield f"model.layers.{layer}.{name}.weight", shape
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (config["vocab_size"], width)


def make(folder: Path, config) -> int:
    """Writes the model unless it is there; the bytes of its weights."""
    import torch

    path, header, at = folder / "model.safetensors", {}, 0
    for name, shape in tensors(config):
        size = 2 * torch.Size(shape).numel()
        header[name] = dict(dtype="BF16", shape=list(shape), data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    if path.exists() and path.stat().st_size == 8 + len(text) + at:
        return at
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors(config):
            if len(shape) == 1:
                value = torch.ones(shape, dtype=torch.bfloat16, device=device)
            else:
                value = torch.randn(shape, dtype=torch.bfloat16, device=device) * shape[1] ** -0.5
            value.cpu().view(torch.uint8).numpy().tofile(file)
    return at


def engine(folder: Path, groups, **options):
    """Runs the groups; the answers, and seconds from exec to the end of loading and to the first token."""
    path = folder / "requests.json"
    path.write_text(json.dumps({"options": options, "groups": groups}))
    start = time.time()
    done = subprocess.run(
        [BUILD / "tests" / "serving" / "engine_requests", folder, path], capture_output=True, text=True,
        env=os.environ | {"KNAPPER_LOG": os.environ.get("KNAPPER_LOG", "warning")})
    if done.returncode:
        sys.exit(done.stderr)
    sys.stderr.write(done.stderr)
    result = json.loads(done.stdout)
    result["seconds"] = time.time() - start
    for group in result["groups"]:
        for answer in group:
            if answer.get("finish") != "length":
                sys.exit(f"a request ended with {answer.get('finish')}: {answer.get('error', answer.get('refused'))}")
    return result


def decoding(group, batch):
    """Median seconds from one step in which all sequences got a token to the next."""
    ends = [max(times) for times in zip(*(answer["times"] for answer in group))]
    return statistics.median(b - a for a, b in zip(ends, ends[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "i8", "i4"])
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--held", type=int, default=512)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--prompts", default="8x1024", help="prompts x tokens, comma separated")
    parser.add_argument("--read", type=float, default=4380, help="reading speed in GB/s")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    room = Path("/dev/shm")
    root = given.folder or (room if room.exists() and shutil.disk_usage(room).free > 60e9 else Path("/tmp"))
    config = LLAMA | dict(num_hidden_layers=given.layers)
    folder, cache = root / f"knapper-llama-{given.layers}", root / "knapper-cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    began = time.time()
    weights = make(folder, config)
    result = {"weights_gb": weights / 1e9, "make_s": time.time() - began}
    draw = random.Random(1)

    def request(tokens, out):
        return dict(prompt=[draw.randrange(100000) for _ in range(tokens)], max_tokens=out, temperature=0, ignore_eos=True)

    options = dict(target=given.target, dtype=given.dtype, cache=str(cache), max_context=given.held + 2048, max_batched_tokens=8192,
                   max_sequences=256, prefix_cache=False)
    first = engine(folder, [[request(16, 1)]], **options)
    result["first_load_s"], result["first_exec_to_token_s"] = first["load_seconds"], first["seconds"]
    batches = [int(b) for b in given.batches.split(",")]
    prompts = [tuple(map(int, p.split("x"))) for p in given.prompts.split(",") if p]
    # The first requests of a size plan and record it.
    groups = [[request(16, 1)]]
    for count, tokens in prompts:
        groups += 2 * [[request(tokens, 1) for _ in range(count)]]
    groups += [[request(given.held, given.steps) for _ in range(batch)] for batch in batches]
    run = engine(folder, groups, **options)
    result["cached_load_s"] = run["load_seconds"]
    result["cached_exec_to_token_s"] = run["load_seconds"] + max(run["groups"][0][0]["times"])
    table = 2 * config["vocab_size"] * config["hidden_size"]
    # Of 4 bits a scale for 128 weights; of 8 one a row, which is next to nothing.
    weights = (weights - table) * dict(bf16=1, i8=1 / 2, i4=(1 / 2 + 4 / 128) / 2)[given.dtype]
    held = 2 * 2 * given.layers * config["num_key_value_heads"] * 128
    at = 1
    for count, tokens in prompts:
        seconds = max(max(answer["times"]) for answer in run["groups"][at + 1])
        result[f"prefill_{count}x{tokens}_tok_s"] = count * tokens / seconds
        at += 2
    for batch, group in zip(batches, run["groups"][at:]):
        seconds = decoding(group, batch)
        limit = (weights + held * batch * (given.held + given.steps / 2)) / given.read / 1e9
        result[f"decode_{batch}"] = dict(tok_s=batch / seconds, step_ms=1e3 * seconds, limit_tok_s=batch / limit)
    print(json.dumps(result) if given.json else json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
