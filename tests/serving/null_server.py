"""A server over the null engine, which repeats the prompt, and a model's folder without weights."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KNAPPER_BUILD", ROOT / "build" / "dev"))
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def trained_texts() -> list[str]:
    """Prose, code and other scripts to train small tokenizers on."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "export.md", ROOT / "compiler" / "pipeline" / "Phases.cpp"]  # fmt: skip
    return [f.read_text() for f in files] + ["Größe naïve café 東京は日本の首都です Привет мир 안녕하세요 🙂👩‍👩‍👧 नमस्ते"]


def make_folder(path: Path) -> Path:
    """A tokenizer, a chat template and no weights."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        trained_texts(),
        trainers.BpeTrainer(
            vocab_size=1500, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        ),
    )  # fmt: skip
    tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    path.mkdir()
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "bos_token": "<|endoftext|>", "chat_template": TEMPLATE}))
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0], "temperature": 0.5}))
    return path


class Server:
    def __init__(self, folder: Path, *flags: str, null: bool = True):
        self.process = subprocess.Popen(
            [BUILD / "bin" / "knapper", "serve", str(folder), "--port", "0", *(["--null-engine"] if null else []), *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        found = re.search(r"at (https?)://([\d.]+):(\d+)", line)
        if not found:
            raise AssertionError(line + self.process.stderr.read())
        self.host, self.port = found[2], int(found[3])
        self.url = f"{found[1]}://{self.host}:{self.port}"

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.log = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def wait_for(condition, seconds: float = 60.0):
    """Far more time than is needed: tests share their machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within time"
        time.sleep(0.01)
