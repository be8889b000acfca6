"""SessionOptions and RunOptions."""

from __future__ import annotations

from typing import Any

from knapper.cancellation import Cancellation
from knapper.errors import Error
from knapper.ort import settings
from knapper.ort.errors import Fail, refuse

_TERMINATED = "Exiting due to terminate flag being set to true."


class _Options:
    """Attributes from a table; setting one that is not honoured raises."""

    __slots__ = ("_values", "_entries")
    _table: dict[str, settings.Setting] = {}

    def __init__(self) -> None:
        object.__setattr__(
            self, "_values", {name: row.default for name, row in self._table.items()}
        )
        object.__setattr__(self, "_entries", {})

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_values")[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[name] = settings.check(
            self._table, type(self).__name__, name, value
        )

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

    Attributes: the rows of `knapper.ort.settings.SESSION`. Setting one to a
    value that is not honoured raises `NotImplemented` with what to do instead;
    an unknown one raises AttributeError.
    """

    __slots__ = ("_dims", "_denotations")
    _table = settings.SESSION

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_dims", {})
        object.__setattr__(self, "_denotations", {})

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
        """Raises NotImplemented for an entry that is not honoured."""
        settings.check_entry(
            settings.SESSION_CONFIG, "session config", config_key, config_value
        )
        self._entries[config_key] = config_value

    def get_session_config_entry(self, config_key: str) -> str:
        """Raises RuntimeError where it was not added."""
        return self._entry(config_key)

    def register_custom_ops_library(self, library_path: str) -> None:
        """Raises NotImplemented."""
        raise refuse(
            "SessionOptions.register_custom_ops_library",
            "express the operator by ONNX operators or an ONNX function in the model",
        )

    def add_initializer(self, name: str, ortvalue: object) -> None:
        """Raises NotImplemented."""
        raise refuse(
            "SessionOptions.add_initializer", "write the values into the model"
        )

    def add_external_initializers(self, names: object, values: object) -> None:
        """Raises NotImplemented."""
        raise refuse(
            "SessionOptions.add_external_initializers",
            "write the values into the model, or give the path of a model whose "
            "external data lies beside it",
        )

    def add_provider(self, name: str, options: object) -> None:
        """Raises NotImplemented."""
        raise refuse(
            "SessionOptions.add_provider", "pass providers= to InferenceSession"
        )

    def has_providers(self) -> bool:
        """False: providers are arguments of the session."""
        return False


class RunOptions(_Options):
    """Options of one run; see `SessionOptions` for what raises.

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

    def __enter__(self) -> Cancellation:
        if self._cancel.cancelled:
            raise Fail(_TERMINATED)
        return self._cancel

    def __exit__(self, kind: Any, error: Any, trace: object) -> None:
        if isinstance(error, Error) and "the run was cancelled" in str(
            error.__cause__ or error
        ):
            raise Fail(_TERMINATED) from error

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """Raises NotImplemented for an entry that is not honoured."""
        settings.check_entry(
            settings.RUN_CONFIG, "run config", config_key, config_value
        )
        self._entries[config_key] = config_value

    def get_run_config_entry(self, config_key: str) -> str:
        """Raises RuntimeError where it was not added."""
        return self._entry(config_key)

    def add_active_adapter(self, adapter: object) -> None:
        """Raises NotImplemented."""
        raise refuse(
            "RunOptions.add_active_adapter", "merge the adapter into the weights"
        )
