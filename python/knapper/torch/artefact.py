"""Compiled graphs as AOTAutograd keeps them in its cache on disk."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule

from knapper.errors import UserError
from knapper.library import version
from knapper.request import Compiler
from knapper.torch import custom, sizes
from knapper.torch.counters import collector, count
from knapper.torch.description import Description
from knapper.torch.guard import Eager, Guard
from knapper.torch.options import Options
from knapper.torch.planes import Boundary
from knapper.torch.program import Program
from knapper.torch.random_inputs import Draw, drawing
from knapper.torch.through import register
from knapper.torch.triton_kernels import Kernel


@dataclasses.dataclass
class Recipe:
    """All that a process needs to make the program of a graph, compiled code apart:
    that comes from Knapper's own cache, or is compiled."""

    description: Description
    options: Options
    device: torch.device
    target: str
    allow_tf32: bool
    deterministic: bool
    threads: int
    draws: list[Draw]
    # The graph as torch runs it; None: it is not measured, and why, if that was asked.
    eager: Eager | None = None
    unmeasured: str = ""
    # Places of complex tensors, which the program sees as real ones.
    complex_arguments: list[int] = dataclasses.field(default_factory=list)
    complex_results: list[int] = dataclasses.field(default_factory=list)
    complex_written: list[int] = dataclasses.field(default_factory=list)

    def build(self) -> Any:
        """A boxed function of a list of arguments."""
        run = self._program()
        if self.complex_arguments or self.complex_results:
            return Boundary(run, self.complex_arguments, self.complex_results, self.complex_written)
        return run

    def _program(self) -> Any:
        description, options = self.description, self.options
        count("graphs")
        if not description.outputs:  # nothing to compute
            draw = drawing(self.draws, description.symbols) if self.draws else None
            return Identity(description, draw)
        for overload in description.overloads if options.fallback == "allow" else description.by_torch:
            register(overload)
        phases: set[str] = set()
        build = Compiler(
            model_format="torch",
            target=self.target,
            allow_tf32=self.allow_tf32,
            deterministic=self.deterministic,
            threads=self.threads,
            cache=options.cache,
            progress=lambda phase, done, total: phases.add(phase),
        )
        text = description.text
        compiled = description.weights.build(text, build) if options.freeze else build(text)
        if options.cache and phases <= {"hash", "done"}:  # nothing was compiled
            count("cache_hits")
        program = Program(compiled, description, options.verify, self.device)
        if self.draws:
            program.draw = drawing(self.draws, description.symbols)
        guard = Guard(program, self.eager, description, self.device) if self.eager else None
        made = collector.get()
        if made is not None:
            made.append((compiled, description, guard, self.unmeasured))
        return guard or program


class Artefact(OutputCode):
    """A graph's program, called with a list of arguments, which it empties. What is
    pickled is the recipe, sealed by its hash."""

    def __init__(self, recipe: Recipe, run: Callable[[list[Any]], list[Any]] | None) -> None:
        """run: the program; None: it is built by the first call."""
        super().__init__()
        self._boxed_call = True  # of the object: torch looks there
        self.recipe = recipe
        self._lock = threading.Lock()
        self.program = run or self._first

    def __call__(self, arguments: Any) -> Any:
        return self.program(arguments)

    def _first(self, arguments: list[Any]) -> list[Any]:
        self._build()
        return self.program(arguments)

    def _build(self) -> None:
        with self._lock:
            if self.program == self._first:
                self.program = self.recipe.build()

    def __copy__(self) -> Artefact:
        return Artefact(self.recipe, None)

    def __getstate__(self) -> dict[str, Any]:
        content = pickle.dumps(self.recipe)
        return {"content": content, "hash": hashlib.sha256(content).digest()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if hashlib.sha256(state["content"]).digest() != state["hash"]:
            raise pickle.UnpicklingError("the entry is damaged")
        Artefact.__init__(self, pickle.loads(state["content"]), None)

    # What torch asks of all that it keeps.

    def prepare_for_serialization(self) -> None:
        if any(isinstance(each, Kernel) for each in self.recipe.description.overloads):
            bypass("Triton kernels are those of the process")

    def post_compile(self, *given: Any) -> None:
        """It came from the cache. A forward is built at once, so that an error is
        met where torch can still compile the graph again."""
        kwargs = given[-1] if given and isinstance(given[-1], dict) else {}
        if not kwargs.get("is_backward"):
            self._build()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


def bypass(reason: str) -> None:
    """Within AOTAutograd's saving: the graph is not kept."""
    from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache

    raise BypassAOTAutogradCache(reason)


class Refused(OutputCode):
    """A backward that cannot be compiled: an error where it is called, since a
    forward may be all that is wanted."""

    def __init__(self, error: UserError) -> None:
        super().__init__()
        self._boxed_call = True
        self._error = error

    def __call__(self, arguments: Any) -> Any:
        raise self._error

    def prepare_for_serialization(self) -> None:
        bypass(str(self._error))

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


class Identity:
    """A graph that computes nothing: its results are arguments, random numbers and values."""

    def __init__(
        self, description: Description, draw: Callable[[list[Any]], None] | None = None
    ) -> None:
        """draw: appends the random numbers of a call to its arguments."""
        self._boxed_call = True
        self._draw = draw
        self._results = description.results
        self._symbols = description.symbols

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if self._draw is not None:
            self._draw(arguments)
        made = []
        for kind, value in self._results:
            if kind == "argument":
                made.append(arguments[value])
            elif kind == "view":
                made.append(value.of(arguments, []))
            elif kind == "size" and not isinstance(value, int):
                known = {
                    name: arguments[a] if d < 0 else arguments[a].shape[d]
                    for name, (a, d) in self._symbols.items()
                }
                made.append(eval(sizes.python(value), {"max": max, "min": min}, known))
            else:
                made.append(value)
        arguments.clear()
        return made


def key(options: Options) -> str:
    """What decides how a graph is traced and compiled, and AOTAutograd's own key
    knows nothing of: who compiles it, its options, and settings of torch."""
    cuda = torch.backends.cuda
    kernels = (
        cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled(),
    )  # fmt: skip
    told = (
        f"knapper {version()} {_sources()}", options, custom.key(),
        options.threads or torch.get_num_threads(), kernels, cuda.matmul.allow_tf32,
        torch.get_float32_matmul_precision(), torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip
    return repr(told)


@functools.cache
def _sources() -> str:
    """Of this package: what it wrote to the cache is read by no other."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def is_cacheable(module: GraphModule) -> bool:
    """Whether a graph of Dynamo's is all in its code: the key does not know the
    elements of tensors that it holds."""
    for each in module.modules():
        if not isinstance(each, GraphModule):
            continue
        if "triton_kernel_wrapper" in each.code:
            return False  # its number is of the process
        for node in each.graph.find_nodes(op="get_attr"):
            held: Any = each
            for part in str(node.target).split("."):
                held = getattr(held, part, None)
            if not isinstance(held, GraphModule):
                return False
    return True
