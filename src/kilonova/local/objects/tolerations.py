"""Tolerations of NoExecute taints: their defaults, and for how long they hold. Pure."""

from collections.abc import Iterable, Sequence

from kilonova.api.json import JsonObject
from kilonova.api.pods.tolerations import tolerates
from kilonova.local.objects.core import Taint, Toleration

FOREVER = float("inf")
_DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_TOLERATION_SECONDS = 300


def tolerated_seconds(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> float:
    """How long after the taint was added the pod may stay: 0 evicts at once, or `FOREVER`."""
    used: list[Toleration] = []
    for taint in taints:
        tolerating = next((each for each in tolerations if tolerates(each, taint)), None)
        if tolerating is None:
            return 0.0
        used.append(tolerating)
    limits = [each.toleration_seconds for each in used if each.toleration_seconds is not None]
    return float(max(0, min(limits))) if limits else FOREVER


def add_default_tolerations(spec: JsonObject) -> None:
    """Add the 300 s tolerations of not-ready and unreachable nodes, unless the pod has its own."""
    tolerations: list[JsonObject] = list(spec.get("tolerations") or ())
    missing = [
        key
        for key in _DEFAULT_TOLERATIONS
        if not any(
            each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
            for each in tolerations
        )
    ]
    tolerations += [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
        }
        for key in missing
    ]
    if missing:
        spec["tolerations"] = tolerations
