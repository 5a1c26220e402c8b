"""How long a pod puts up with taints that would end it. Pure."""

from collections.abc import Iterable, Sequence

from kilonova.local.controllers.objects import Taint, Toleration

FOREVER = float("inf")


def endured_seconds(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> float:
    """How long after a taint came the pod may stay: 0 if it must go at once, or `FOREVER`."""
    used: list[Toleration] = []
    for taint in taints:
        tolerating = next((each for each in tolerations if tolerates(each, taint)), None)
        if tolerating is None:
            return 0.0
        used.append(tolerating)
    limits = [each.toleration_seconds for each in used if each.toleration_seconds is not None]
    return float(max(0, min(limits))) if limits else FOREVER


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a pod with this toleration puts up with the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    try:
        bound, value = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound
