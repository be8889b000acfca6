"""As `knapper.openvino.properties.hint`."""

from knapper.openvino.properties.hint import *  # noqa: F401,F403
