"""As `knapper.ort.capi._pybind_state`."""

from knapper.ort.capi._pybind_state import *  # noqa: F401,F403
