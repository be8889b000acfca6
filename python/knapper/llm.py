"""Language models: text in, text out, many requests at once.

    llm = knapper.LLM("./SmolLM2-135M-Instruct")
    llm.chat([{"role": "user", "content": "Hello"}]).text
    llm.generate("Once upon a time", max_tokens=50, temperature=0).text
    for piece in llm.stream("Once upon a time"):
        print(piece, end="")

Requests take the fields of `knapper serve` (docs/serve.md), which are OpenAI's.
An `LLM` may be used from any number of threads; their requests share the
steps of one engine.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64
from ctypes import c_size_t, c_void_p
from typing import Any

import numpy as np

from knapper.errors import DeviceError, InternalError, WrongType, WrongValue
from knapper.library import check, encode_path, library
from knapper.loading import whole

Prompt = str | Sequence[int]


class _Options(ctypes.Structure):
    """knapper_llm_options"""

    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int32),
        ("max_context", c_int32),
        ("max_batched_tokens", c_int32),
        ("max_sequences", c_int32),
        ("queue_limit", c_int32),
        ("no_prefix_cache", c_int32),
        ("kv_memory_bytes", c_int64),
        ("dtype", c_char_p),
        ("cache_dir", c_char_p),
        ("target", c_char_p),
        ("model_name", c_char_p),
        ("speculate", c_char_p),
        ("draft_model", c_char_p),
        ("speculate_tokens", c_int32),
        ("hung_after", c_double),
        ("verify_files", c_int32),
    ]


class _Part(ctypes.Structure):
    """knapper_llm_part"""

    _fields_ = [
        ("size", c_size_t),
        ("state", c_int),
        ("status", c_int32),
        ("data", c_void_p),
        ("bytes", c_size_t),
    ]


_WAITING, _PART = 0, 1  # knapper_llm_state
_OUT = POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "knapper_llm_load": (c_void_p, [c_char_p, POINTER(_Options), _OUT]),
    "knapper_llm_release": (None, [c_void_p]),
    "knapper_llm_context": (c_int32, [c_void_p]),
    "knapper_llm_submit": (c_void_p, [c_void_p, c_char_p, c_char_p, _OUT]),
    "knapper_llm_poll": (c_void_p, [c_void_p, c_int64, POINTER(_Part)]),
    "knapper_llm_cancel": (None, [c_void_p]),
    "knapper_llm_request_release": (None, [c_void_p]),
}


def _functions() -> ctypes.CDLL:
    lib = library()
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError:
        raise WrongValue(
            "the library runs compiled models only, it has no language models",
            where="libknapper_rt",
            hint="set KNAPPER_LIBRARY to libknapper.so, or unset it",
        ) from None
    return lib


@dataclasses.dataclass(frozen=True)
class Completion:
    """What a model wrote.

    text: the answer.
    finish_reason: "stop" (the model or a stop string ended it) or "length".
    prompt_tokens, completion_tokens: numbers of tokens.
    choice: OpenAI's object of the answer, with `logprobs` if the request asked
        for them.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    choice: dict[str, Any]


class _Request:
    """A request of the library, until it is closed."""

    def __init__(self, lib: ctypes.CDLL, llm: int, path: str, body: bytes | None):
        handle = c_void_p()
        check(lib.knapper_llm_submit(llm, path.encode(), body, byref(handle)))
        self._lib = lib
        self._handle = handle.value
        self.close = weakref.finalize(
            self, lib.knapper_llm_request_release, self._handle
        )

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """Statuses and texts. Waits in slices, so that an interrupt is seen."""
        while True:
            part = _Part(size=ctypes.sizeof(_Part))
            check(self._lib.knapper_llm_poll(self._handle, 200, byref(part)))
            if part.state == _PART:
                yield part.status, ctypes.string_at(part.data, part.bytes)
            elif part.state != _WAITING:
                return


def _raise(status: int, error: Mapping[str, Any]) -> None:
    """Raises the Python error of OpenAI's error object."""
    text = str(error.get("message"))
    where = str(error.get("param") or "")
    if status >= 500:
        kind = InternalError if status == 500 else DeviceError
        raise kind(text, where=where)
    raise WrongValue(text, where=where, hint="docs/serve.md lists the fields")


class LLM:
    """A language model of a Hugging Face folder.

    folder: config.json, safetensors, tokenizer.json.
    dtype: of the weights: "f32", "bf16", "i8" or "i4".
    target: "cpu", "cuda", or "cuda" with its variant: "cuda:sm_90a".
    threads: threads that compute; 0: one for each core.
    max_context: tokens of a prompt and its answer together; 0: the model's.
    max_batched_tokens: tokens of one step.
    max_sequences: requests that run at once.
    queue_limit: requests that wait, at most.
    kv_memory: bytes of keys and values; 0: a quarter of the free memory.
    prefix_cache: whether equal prefixes of prompts are computed once.
    speculate: how tokens are proposed, so that a step verifies several: "off",
        "ngram" (from the text before) or "draft" (by the model of the folder
        `draft_model`), at most `speculate_tokens` at a time. The tokens of the
        answer do not change.
    cache_dir: folder of compiled programs; None: the compiler's.
    hung_after: seconds. A step that takes longer hangs. 0: 4 seconds on GPUs,
        never on CPUs; below 0: never.
    verify_files: True: the load reads all weights and compares their hashes, even
        if an earlier load has.

    If the device is lost or a step hangs, the running requests end with a
    DeviceError, and the model is loaded again in place. Loading blocks for
    seconds. Raises UserError for a mistake in the folder or an argument,
    DeviceError if there is not enough memory. `close`, or the end of a `with`,
    frees the memory when the last request has ended.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        dtype: str = "f32",
        target: str = "cpu",
        threads: int = 0,
        max_context: int = 0,
        max_batched_tokens: int = 512,
        max_sequences: int = 64,
        queue_limit: int = 1024,
        kv_memory: int = 0,
        prefix_cache: bool = True,
        speculate: str = "off",
        draft_model: str | os.PathLike[str] | None = None,
        speculate_tokens: int = 8,
        cache_dir: str | os.PathLike[str] | None = None,
        hung_after: float = 0,
        verify_files: bool = False,
    ) -> None:
        self._lib = _functions()
        if not isinstance(dtype, str):
            raise WrongType(
                f"dtype is {dtype!r}", where="dtype", hint="f32, bf16, i8 or i4"
            )
        if not isinstance(speculate, str):
            raise WrongType(
                f"speculate is {speculate!r}",
                where="speculate",
                hint="off, ngram or draft",
            )
        if not isinstance(target, str):
            raise WrongType(
                f"target is {target!r}", where="target", hint="cpu or cuda"
            )
        if isinstance(hung_after, bool) or not isinstance(hung_after, (int, float)):
            raise WrongType(
                f"hung_after is {hung_after!r}", where="hung_after", hint="seconds"
            )
        options = _Options(
            size=ctypes.sizeof(_Options),
            threads=whole(threads, "threads", "0, or a count"),
            max_context=whole(max_context, "max_context", "0, or tokens"),
            max_batched_tokens=whole(
                max_batched_tokens, "max_batched_tokens", "tokens", least=1
            ),
            max_sequences=whole(max_sequences, "max_sequences", "a count", least=1),
            queue_limit=whole(queue_limit, "queue_limit", "a count", least=1),
            no_prefix_cache=0 if prefix_cache else 1,
            kv_memory_bytes=whole(kv_memory, "kv_memory", "bytes", most=1 << 62),
            dtype=dtype.encode(),
            target=target.encode(),
            speculate=speculate.encode(),
            draft_model=None if draft_model is None else encode_path(draft_model),
            speculate_tokens=whole(
                speculate_tokens, "speculate_tokens", "a count", least=1
            ),
            cache_dir=None if cache_dir is None else encode_path(cache_dir),
            hung_after=hung_after,
            verify_files=1 if verify_files else 0,
        )
        handle = c_void_p()
        check(
            self._lib.knapper_llm_load(
                encode_path(folder), byref(options), byref(handle)
            )
        )
        self._handle = handle.value
        self._release = weakref.finalize(
            self, self._lib.knapper_llm_release, self._handle
        )

    def close(self) -> None:
        """Takes no more requests. The last one that ends frees the memory."""
        self._release()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def context_length(self) -> int:
        """The largest number of tokens of a prompt and its answer together."""
        return int(self._lib.knapper_llm_context(self._open()))

    def generate(self, prompt: Prompt, **fields: Any) -> Completion:
        """Continues a text or a list of tokens, which may contain control tokens.
        `fields`: `max_tokens` (default 16), `temperature`, `stop`, ..."""
        body = self._prompt(prompt, fields)
        return self._completion(self._answer("/v1/completions", body))

    def generate_all(
        self, prompts: Sequence[Prompt], **fields: Any
    ) -> list[Completion]:
        """The same for many prompts, computed in the same steps."""
        bodies = [self._prompt(prompt, fields) for prompt in prompts]
        requests = [self._begin("/v1/completions", body) for body in bodies]
        return [self._completion(self._whole(request)) for request in requests]

    def chat(self, messages: Sequence[Mapping[str, Any]], **fields: Any) -> Completion:
        """The answer to a conversation, by the folder's chat template."""
        body = self._messages(messages, fields)
        return self._completion(self._answer("/v1/chat/completions", body))

    def stream(
        self, prompt: Prompt | Sequence[Mapping[str, Any]], **fields: Any
    ) -> Iterator[str]:
        """Yields the pieces of the answer as they come, for a prompt (as of
        `generate`) or for messages. Closing or dropping the generator ends its
        request."""
        chat = not isinstance(prompt, str) and any(
            isinstance(entry, Mapping) for entry in prompt
        )
        body = (self._messages if chat else self._prompt)(prompt, fields)  # type: ignore[operator]
        path = "/v1/chat/completions" if chat else "/v1/completions"
        return self._pieces(self._begin(path, body | {"stream": True}))

    def embed(self, texts: str | Sequence[Prompt]) -> np.ndarray:
        """The vectors of texts (or lists of tokens), one for each row; for one
        text, its vector. For models that make embeddings; pooling and
        normalisation are as their folder says."""
        alone = isinstance(texts, str)
        rows: list[str | list[int]] = []
        for text in [texts] if isinstance(texts, str) else texts:
            if not isinstance(text, str):
                text = [whole(token, "texts", "texts or tokens") for token in text]
            rows.append(text)
        if not rows:
            raise WrongValue("is empty", where="texts", hint="at least one text")
        body = {"input": rows, "encoding_format": "base64"}
        answer = self._answer("/v1/embeddings", body)
        vectors = np.stack(
            [
                np.frombuffer(base64.b64decode(row["embedding"]), np.float32)
                for row in answer["data"]
            ]
        )
        return vectors[0] if alone else vectors

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text."""
        body = {"prompt": text, "add_special_tokens": add_special_tokens}
        return list(self._answer("/tokenize", body)["tokens"])

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        body = {"tokens": [int(token) for token in tokens]}
        return str(self._answer("/detokenize", body)["prompt"])

    # ---- requests

    def _open(self) -> int:
        if not self._release.alive:
            raise WrongValue(
                "the model is closed", where="LLM", hint="load it again"
            )
        assert self._handle is not None
        return self._handle

    def _begin(self, path: str, body: Mapping[str, Any]) -> _Request:
        try:
            text = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise WrongValue(
                f"a field is no JSON: {error}", where="fields", hint="docs/serve.md"
            ) from None
        return _Request(self._lib, self._open(), path, text)

    @staticmethod
    def _whole(request: _Request) -> dict[str, Any]:
        try:
            for status, text in request.parts():
                answer: dict[str, Any] = json.loads(text)
                if "error" in answer:
                    _raise(status, answer["error"])
                return answer
        finally:
            request.close()
        raise InternalError("a request ended without an answer")

    def _answer(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._whole(self._begin(path, body))

    @staticmethod
    def _pieces(request: _Request) -> Iterator[str]:
        try:
            for status, text in request.parts():
                event = json.loads(text)
                if "error" in event:
                    _raise(status if status >= 400 else 500, event["error"])
                for choice in event["choices"]:
                    piece = choice.get("text") or choice.get("delta", {}).get("content")
                    if piece:
                        yield piece
        finally:
            request.close()

    @staticmethod
    def _prompt(prompt: Prompt, fields: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(prompt, str):
            prompt = [whole(token, "prompt", "a text or tokens") for token in prompt]
        return _checked(fields) | {"prompt": prompt}

    @staticmethod
    def _messages(
        messages: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        return _checked(fields) | {"messages": [dict(message) for message in messages]}

    @staticmethod
    def _completion(answer: Mapping[str, Any]) -> Completion:
        choice = answer["choices"][0]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        usage = answer["usage"]
        return Completion(
            text or "",
            choice["finish_reason"],
            usage["prompt_tokens"],
            usage["completion_tokens"],
            choice,
        )


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What would change the form of the answer has a function of its own."""
    for name, instead in (
        ("stream", "LLM.stream"),
        ("n", "one call each, with another seed"),
        ("prompt", "the first argument"),
        ("messages", "the first argument"),
    ):
        if name in fields:
            raise WrongValue(f"{name} is no field here", where=name, hint=instead)
    return dict(fields)
