"""What notebooks show: modules, results, reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from knapper.errors import printable

if TYPE_CHECKING:
    from knapper.module import Module
    from knapper.results import Result


def escape(text: str) -> str:
    """As text, or as the value of an attribute in quotes."""
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(mark, entity)
    return text


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """An HTML table; texts are escaped."""

    def line(tag: str, cells: Iterable[object]) -> str:
        made = (f"<{tag}>{escape(printable(str(cell)))}</{tag}>" for cell in cells)
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"


def of_module(module: Module) -> str:
    """Signature, device, threads and sizes."""
    rows = [
        (kind, info.name, info.dtype, ", ".join(map(str, info.shape)) or "scalar")
        for kind, infos in (("input", module.inputs), ("output", module.outputs))
        for info in infos
    ]
    where = module.device
    if module._fact("addresses_host"):
        where += f", {module.threads} threads"
    sizes = ", ".join(module.symbols) or "all fixed"
    return (
        f"<b>knapper.Module</b> on {escape(where)}; sizes: {escape(printable(sizes))}"
        + table(("", "name", "dtype", "shape"), rows)
    )


def of_result(result: Result) -> str:
    """Shape and dtype of each output."""
    rows = [
        (name, tensor.dtype, ", ".join(map(str, tensor.shape)) or "scalar")
        for name, tensor in result._tensors()
    ]
    return "<b>knapper.Result</b>" + table(("output", "dtype", "shape"), rows)


class Report(str):
    """The page that `Module.explain` makes.

    times: of a report of measured runs, else None: {"runs", "sizes", "peak_gflops",
        "peak_gbps", "total_us", "outside_us", "advice", "launches": [...],
        "kernels": [{"kernel", "schedule", "origin", "us", "share_percent",
        "roofline_percent", "bound_by", "advice": [{"kind", "text"}], ...}]}, medians in
        microseconds, the longest kernels first.
    comparison: of a report that compares, else None: {"total_us": [this, the
        other], "ratio", "kernels": [{"origin", "first", "second",
        "difference_us", "ratio"}]}, the largest differences first.
    """

    times: dict[str, Any] | None = None
    comparison: dict[str, Any] | None = None

    def _repr_html_(self) -> str:
        # In a frame of its own: the page has styles and a script.
        return (
            f'<iframe srcdoc="{escape(self)}" width="100%" height="700" '
            'style="border:1px solid #ccc"></iframe>'
        )


def with_copies(page: str, copies: Mapping[str, int]) -> str:
    """The report with what was copied before runs, where anything was."""
    if not copies:
        return page
    rows = sorted(copies.items())
    section = (
        '<section id="copies"><h2>Inputs copied by the caller</h2><p>These were not '
        "contiguous arrays, so each call copied them first: "
        "numpy.ascontiguousarray or tensor.contiguous() once saves that.</p>"
        + table(("input", "copies"), rows)
        + "</section>"
    )
    head, nav, rest = page.partition("</nav>")
    return head + nav + section + rest
