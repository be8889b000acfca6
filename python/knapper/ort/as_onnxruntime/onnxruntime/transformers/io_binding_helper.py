"""As `knapper.ort.type_helper`."""

from knapper.ort.type_helper import TypeHelper  # noqa: F401
