"""Rules of resources of servers and gateways. Pure.

Kubernetes has the same for pods: but these are created by others, later, and a service would wait
for pods that cannot be.
"""

from collections.abc import Iterator
from typing import cast

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError, parse_quantity
from kilonova.api.serving import InferenceServiceSpec
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import invalid_value

_NATIVE_DOMAIN = "kubernetes.io"


def validate_resources(spec: InferenceServiceSpec) -> Iterator[FieldError]:
    """Errors of all resources of a spec."""
    for number, group in enumerate(spec.servers):
        yield from _validate(group.resources, f"spec.servers[{number}].resources")
    yield from _validate(spec.gateway.resources, "spec.gateway.resources")


def _validate(resources: JsonObject | None, path: str) -> Iterator[FieldError]:
    if resources is None:
        return
    limits = cast("JsonObject", resources.get("limits") or {})
    requests = cast("JsonObject", resources.get("requests") or {})
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, text in quantities.items():
            where = f"{path}.{kind}.{name}"
            try:
                quantity = parse_quantity(str(text))
            except QuantityError as error:
                yield invalid_value(where, text, str(error))
                continue
            if quantity < Quantity(0):
                yield invalid_value(where, text, "must be greater than or equal to 0")
            elif _is_extended(name) and not quantity.is_integer:
                rule = "must be an integer: for a part of a GPU, name a MIG slice or a share"
                yield invalid_value(where, text, rule)
            elif kind == "requests" and name in limits and _exceeds(quantity, limits[name]):
                rule = f"must be no more than the limit of {limits[name]}"
                yield invalid_value(where, text, rule)


def _is_extended(name: str) -> bool:
    """Whether it is a device, such as `nvidia.com/gpu`."""
    domain, slash, _ = name.rpartition("/")
    return bool(slash) and not domain.endswith(_NATIVE_DOMAIN)


def _exceeds(request: Quantity, limit: object) -> bool:
    try:
        return request > parse_quantity(str(limit))
    except QuantityError:
        return False
