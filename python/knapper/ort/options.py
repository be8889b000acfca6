"""SessionOptions and RunOptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knapper.cancellation import Cancellation
from knapper.errors import Error
from knapper.ort import settings
from knapper.ort.errors import Fail
from knapper.ort.refusals import Refusal, passed_over
from knapper.ort.refusals import check as check_refusals
from knapper.ort.value import OrtValue

_TERMINATED = "Exiting due to terminate flag being set to true."


class _Options:
    """Attributes from a table. What is not honoured is noted when it is set, hints
    with a warning, and refused where the options are used, all of it at once."""

    __slots__ = ("_values", "_entries", "_noted")
    _kept: tuple[str, ...] = __slots__  # by a copy
    _table: dict[str, settings.Setting] = {}

    def __init__(self) -> None:
        object.__setattr__(
            self, "_values", {name: row.default for name, row in self._table.items()}
        )
        object.__setattr__(self, "_entries", {})
        object.__setattr__(self, "_noted", {})

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_values")[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        owner = type(self).__name__
        self._values[name], refusal = settings.check(self._table, owner, name, value)
        self._note(name, refusal)

    def _note(self, key: str, refusal: Refusal | None) -> None:
        """Keeps what is to say of an option; None: nothing any more."""
        self._noted.pop(key, None)
        if refusal is not None:
            self._noted[key] = refusal
            passed_over(refusal)

    def _refusals(self) -> list[Refusal]:
        """What is not honoured, hints among it."""
        return list(self._noted.values())

    def __getstate__(self) -> dict[str, Any]:
        return {name: dict(getattr(self, name)) for name in self._kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self)
        for name, value in state.items():
            object.__setattr__(self, name, dict(value))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._table]

    def _entry(self, key: str) -> str:
        try:
            return self._entries[key]
        except KeyError:
            raise RuntimeError(
                f"{type(self).__name__} does not have configuration with key: {key}"
            ) from None


class SessionOptions(_Options):
    """How a session compiles and runs its model. A session reads it when it is
    made; later changes have no effect on it.

    Attributes: the rows of `knapper.ort.settings.SESSION`. A hint of memory or speed
    that is not honoured gives a `HintWarning`; what else is not honoured makes the
    session raise `NotImplemented`, which lists all of it with what to do instead.
    An unknown attribute raises AttributeError.
    """

    __slots__ = ("_dims", "_denotations", "_initializers")
    _kept = *_Options._kept, *__slots__
    _table = settings.SESSION

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_dims", {})
        object.__setattr__(self, "_denotations", {})
        object.__setattr__(self, "_initializers", {})

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Fixes a symbolic size: the model is compiled for it. Making the session
        raises InvalidArgument where the model has no such dim."""
        self._dims[str(dim_name)] = int(dim_value)

    def add_free_dimension_override_by_denotation(
        self, dim_denotation: str, dim_value: int
    ) -> None:
        """Fixes the sizes of all inputs' dims with this denotation, which must
        have names."""
        self._denotations[str(dim_denotation)] = int(dim_value)

    def add_session_config_entry(self, config_key: str, config_value: str) -> None:
        """See the class for entries that are not honoured."""
        refusal = settings.check_entry(
            settings.SESSION_CONFIG, "session config", config_key, config_value
        )
        self._note(config_key, refusal)
        self._entries[config_key] = config_value

    def get_session_config_entry(self, config_key: str) -> str:
        """Raises RuntimeError where it was not added."""
        return self._entry(config_key)

    def register_custom_ops_library(self, library_path: str) -> None:
        """Refused when the session is made."""
        self._refuse(
            f"register_custom_ops_library({str(library_path)!r})",
            "express the operator by ONNX operators or an ONNX function in the model",
        )

    def add_initializer(self, name: str, ortvalue: OrtValue) -> None:
        """The model's initializer of this name has these values, which are copied
        when the session is made. Making it raises InvalidArgument where the model
        has no such initializer."""
        self._initializers[str(name)] = ortvalue.numpy()

    def add_external_initializers(
        self, names: Sequence[str], values: Sequence[OrtValue]
    ) -> None:
        """`add_initializer` of each. Raises ValueError for lists of other lengths."""
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def add_provider(self, name: str, options: object) -> None:
        """Refused when the session is made."""
        self._refuse(f"add_provider({name!r})", "pass providers= to InferenceSession")

    def _refuse(self, call: str, instead: str) -> None:
        self._note(call, Refusal(f"SessionOptions.{call}", instead))

    def has_providers(self) -> bool:
        """False: providers are arguments of the session."""
        return False


class RunOptions(_Options):
    """Options of one run; see `SessionOptions` for what is not honoured, which a run
    raises.

    terminate: set from any thread, it ends the runs that were given these options,
    before their next kernel, with `Fail`; runs given them later raise at once.
    """

    __slots__ = ("_cancel",)
    _table = settings.RUN

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_cancel", Cancellation())

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "terminate":
            return
        if value:
            self._cancel.cancel()
        elif self._cancel.cancelled:  # runs that it ended may still look
            object.__setattr__(self, "_cancel", Cancellation())

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.terminate = self._values["terminate"]

    def __enter__(self) -> Cancellation:
        if self._noted:
            check_refusals(self._refusals())
        if self._cancel.cancelled:
            raise Fail(_TERMINATED)
        return self._cancel

    def __exit__(self, kind: Any, error: Any, trace: object) -> None:
        if isinstance(error, Error) and "the run was cancelled" in str(
            error.__cause__ or error
        ):
            raise Fail(_TERMINATED) from error

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """See `SessionOptions` for entries that are not honoured."""
        refusal = settings.check_entry(
            settings.RUN_CONFIG, "run config", config_key, config_value
        )
        self._note(config_key, refusal)
        self._entries[config_key] = config_value

    def get_run_config_entry(self, config_key: str) -> str:
        """Raises RuntimeError where it was not added."""
        return self._entry(config_key)

    def add_active_adapter(self, adapter: object) -> None:
        """Refused when a run is given the options."""
        what = "RunOptions.add_active_adapter"
        self._note(what, Refusal(what, "merge the adapter into the weights"))
