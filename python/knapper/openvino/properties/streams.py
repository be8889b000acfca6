"""Streams: one is what is done."""

from knapper.openvino.properties.names import Property

num = Property("NUM_STREAMS")
