"""As `knapper.openvino.properties`."""

from knapper.openvino.properties import *  # noqa: F401,F403
