"""As `knapper.openvino.properties.device`."""

from knapper.openvino.properties.device import *  # noqa: F401,F403
