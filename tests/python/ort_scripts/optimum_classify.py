"""Optimum: a classifier and its pipeline from a local folder, with and without bound
memory. Needs optimum-onnx, of whose releases none takes transformers 5 yet."""

import json
import pathlib
import shutil
import sys

import numpy as np
from optimum.onnxruntime import ORTModelForSequenceClassification
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, pipeline

folder, out = sys.argv[1:]
home = pathlib.Path.cwd() / "classifier"
home.mkdir()
shutil.copy(f"{folder}/text.onnx", home / "model.onnx")
words = {w: i for i, w in enumerate("[PAD] [UNK] good bad film very not the was".split())}
tokens = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]",
    model_input_names=["input_ids", "attention_mask"],
)  # fmt: skip
config = {"model_type": "bert", "hidden_size": 32, "num_labels": 2, "vocab_size": 64}
(home / "config.json").write_text(json.dumps(config))

texts = ["the film was very good", "not bad", "the film was bad"]
feed = tokenizer(texts, padding=True, return_tensors="pt")
logits = []
for bound in (False, True):
    model = ORTModelForSequenceClassification.from_pretrained(home, use_io_binding=bound)
    logits.append(model(**feed).logits.numpy())
model.use_io_binding = False  # for NumPy's arrays
arrays = model(**tokenizer(texts, padding=True, return_tensors="np")).logits
classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
scores = [answer["score"] for answer in classify(texts)]
np.savez(out, logits=np.stack(logits), arrays=arrays, scores=np.array(scores, np.float32))
