"""Types that the parts of an InferenceService share."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kilonova.api.scheduling import Duration, Quantity

__all__ = [
    "ConfigMapKey",
    "Count",
    "DnsLabel",
    "Duration",
    "ModelName",
    "PositiveInt",
    "Quantity",
    "Ratio",
    "ResourceName",
    "SecretKey",
    "Weight",
]

Count = Annotated[int, Meta(ge=0, extra={"format": "int32"})]
PositiveInt = Annotated[int, Meta(ge=1, extra={"format": "int32"})]
Weight = Annotated[int, Meta(ge=0, le=1_000_000, extra={"format": "int32"})]
"""A share, relative to the weights beside it."""
Ratio = Annotated[float, Meta(ge=0, extra={"format": "double"})]
DnsLabel = Annotated[
    str, Meta(min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
"""A name that becomes part of the names of objects."""
ModelName = Annotated[str, Meta(min_length=1, max_length=253)]
"""The name of a model, as clients send it."""
ResourceName = Annotated[str, Meta(min_length=1, max_length=253)]
"""The name of an object of the same namespace."""


class SecretKey(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A key of a Secret of the same namespace."""

    name: ResourceName
    """The name of the Secret."""
    key: Annotated[str, Meta(max_length=253)] = ""
    """The key in its data. The default is that of the field that refers to it."""


class ConfigMapKey(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A key of a ConfigMap of the same namespace."""

    name: ResourceName
    """The name of the ConfigMap."""
    key: Annotated[str, Meta(max_length=253)] = ""
    """The key in its data. The default is that of the field that refers to it."""
