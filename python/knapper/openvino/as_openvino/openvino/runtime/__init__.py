"""The names of `openvino`, where older programs import them."""

from knapper.openvino import *  # noqa: F401,F403
