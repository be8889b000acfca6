"""What a device is."""

from knapper.openvino.properties.names import Property

full_name = Property("FULL_DEVICE_NAME")
