"""sentence-transformers with its ONNX backend, which is Optimum's, from a local folder."""

import json
import pathlib
import shutil
import sys

import numpy as np
import optimum.onnxruntime  # noqa: F401
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

folder, out = sys.argv[1:]
home = pathlib.Path.cwd() / "embedder"
(home / "onnx").mkdir(parents=True)
shutil.copy(f"{folder}/text.onnx", home / "onnx" / "model.onnx")
words = {w: i for i, w in enumerate("[PAD] [UNK] red green blue small large ball box".split())}
tokens = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(
    tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16,
    model_input_names=["input_ids", "attention_mask"],
).save_pretrained(home)  # fmt: skip
(home / "1_Pooling").mkdir()
kinds = ["Transformer", "Pooling"]
modules = [
    {"idx": i, "name": str(i), "path": ["", "1_Pooling"][i],
     "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)
]  # fmt: skip
for name, content in {
    "config.json": {"model_type": "bert", "hidden_size": 32, "vocab_size": 64},
    "modules.json": modules,
    "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
    "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
}.items():
    (home / name).write_text(json.dumps(content))

model = SentenceTransformer(
    str(home), backend="onnx", device="cpu", model_kwargs={"file_name": "onnx/model.onnx"}
)
texts = ["small red ball", "large blue box", "red red ball", "small box large green ball"]
vectors = model.encode(texts, batch_size=2, normalize_embeddings=True)
np.savez(out, vectors=vectors, alike=model.similarity(vectors, vectors).numpy())
