"""Parameters of a question for the best set, from text. Pure."""

from collections.abc import Sequence

from kilonova.catalog.mig import known_geometries
from kilonova.gpu.topologyservice.best_set import MAX_GPUS, InvalidQuery, SetQuery
from kilonova.scheduler.core.model.requests import GpuPreference

_MAX_AMOUNT = 1 << 31
_NAMES = (
    "gpus",
    "preference",
    "model",
    "architecture",
    "minMemory",
    "minBandwidth",
    "profile",
    "perNode",
)


def parse_query(parameters: Sequence[tuple[str, str]]) -> SetQuery:
    """The question of a query string; `InvalidQuery` names the parameter, its value and the fix."""
    values: dict[str, list[str]] = {}
    for name, value in parameters:
        if name not in _NAMES:
            raise InvalidQuery(f"{name}: unknown parameter; there are {', '.join(_NAMES)}")
        values.setdefault(name, []).append(value)
    repeated = [name for name, given in values.items() if len(given) > 1 and name != "model"]
    if repeated:
        raise InvalidQuery(f"{repeated[0]}: given {len(values[repeated[0]])} times; give it once")
    single = {name: given[0] for name, given in values.items() if name != "model"}
    if "gpus" not in single:
        raise InvalidQuery("gpus: required, the number of GPUs or MIG instances, such as gpus=8")
    return SetQuery(
        gpus=_parse_amount("gpus", single["gpus"], 1, MAX_GPUS),
        preference=_parse_preference(single.get("preference", "None")),
        models=tuple(values.get("model", ())),
        architecture=single.get("architecture", ""),
        min_memory_mib=_parse_amount("minMemory", single.get("minMemory", "0"), 0, _MAX_AMOUNT),
        min_bandwidth_gbps=_parse_amount(
            "minBandwidth", single.get("minBandwidth", "0"), 0, _MAX_AMOUNT
        ),
        profile=_parse_profile(single.get("profile", "")),
        per_node=_parse_amount("perNode", single.get("perNode", "0"), 0, MAX_GPUS),
    )


def _parse_amount(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        raise InvalidQuery(f"{name}: {text[:40]!r} is not a number from {least} to {most}")
    amount = int(text)
    if not least <= amount <= most:
        raise InvalidQuery(f"{name}: {amount} is not between {least} and {most}")
    return amount


def _parse_preference(text: str) -> GpuPreference:
    try:
        return GpuPreference(text)
    except ValueError:
        allowed = ", ".join(each.value for each in GpuPreference)
        raise InvalidQuery(f"preference: {text[:40]!r} is none of {allowed}") from None


def _parse_profile(text: str) -> str:
    if text and not any(geometry.profile(text) for geometry in known_geometries()):
        raise InvalidQuery(
            f"profile: {text[:40]!r} is no MIG profile of the catalog, such as 1g.10gb"
        )
    return text
