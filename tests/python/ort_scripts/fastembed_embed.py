"""fastembed with a model of one's own from a local folder."""

import json
import pathlib
import shutil
import sys

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from tokenizers import Tokenizer, models, pre_tokenizers

folder, out = sys.argv[1:]
home = pathlib.Path.cwd() / "embedder"
home.mkdir()
shutil.copy(f"{folder}/text.onnx", home / "model.onnx")
words = {w: i for i, w in enumerate("[PAD] [UNK] [CLS] [SEP] red green blue small large ball box".split())}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.save(str(home / "tokenizer.json"))
special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
for name, content in {
    "config.json": {"pad_token_id": 0},
    "tokenizer_config.json": special | {"model_max_length": 16},
    "special_tokens_map.json": special,
}.items():
    (home / name).write_text(json.dumps(content))

TextEmbedding.add_custom_model(
    model="own/embedder", pooling=PoolingType.MEAN, normalization=True,
    sources=ModelSource(hf="own/embedder"), dim=32, model_file="model.onnx",
)  # fmt: skip
embedder = TextEmbedding("own/embedder", specific_model_path=str(home), threads=2)
texts = ["small red ball", "large blue box", "red red ball", "small box large green ball"]
vectors = np.stack(list(embedder.embed(texts, batch_size=3)))
np.savez(out, vectors=vectors, nearest=(vectors @ vectors.T - 2 * np.eye(4)).argmax(1))
