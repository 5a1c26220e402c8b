"""What pods ask for in all, resource by resource. Pure."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, from_json
from kilonova.local.kinds.walk import objects, part

Amounts = dict[str, Quantity]

_WHOLE_POD = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def amounts(found: JsonObject) -> Amounts:
    """A map of quantities as it stands in an object."""
    return {name: from_json(value) for name, value in found.items()}


def add(total: Amounts, more: Amounts) -> None:
    """Add amounts to others."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def pod_amounts(spec: JsonObject, field: str, *, overhead: bool = True) -> Amounts:
    """The `requests` or `limits` of a whole pod.

    Init containers run before the others, one by one, so that only the largest counts; those that
    go on running count with the others, and with the init containers after them.
    """
    total: Amounts = {}
    for container in objects(spec, "containers"):
        add(total, amounts(part(container, "resources", field)))
    running: Amounts = {}
    starting: Amounts = {}
    for container in objects(spec, "initContainers"):
        own = amounts(part(container, "resources", field))
        if container.get("restartPolicy") == "Always":
            add(total, own)
            add(running, own)
            own = dict(running)
        else:
            add(own, running)
        _raise_to(starting, own)
    _raise_to(total, starting)
    for name, amount in amounts(part(spec, "resources", field)).items():
        if name in _WHOLE_POD or name.startswith(_HUGE_PAGES):
            total[name] = amount
    if overhead:
        extra = amounts(part(spec, "overhead"))
        add(total, extra if field == "requests" else _limited(extra, total))
    return total


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _limited(extra: Amounts, limits: Amounts) -> Amounts:
    """What has no limit stays without one."""
    return {name: amount for name, amount in extra.items() if limits.get(name)}


def listed(names: Iterable[str], found: Amounts) -> str:
    """Amounts in words: `cpu=500m,pods=1`."""
    return ",".join(f"{name}={found[name]}" for name in sorted(names) if name in found)
