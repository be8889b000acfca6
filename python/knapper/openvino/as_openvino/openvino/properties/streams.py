"""As `knapper.openvino.properties.streams`."""

from knapper.openvino.properties.streams import *  # noqa: F401,F403
