"""The configs that NVIDIA ships with mig-parted, generated from the geometries.

`all-disabled`, `all-enabled`, `all-balanced`, and for each profile one with as many instances as a
device holds: `all-1g.10gb`; `all-1g.10gb.me` of the profile `1g.10gb+me`. Where a name means
different things on different products, its rules have device filters.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kilonova.catalog.mig import MigGeometry, MigProfile, known_geometries
from kilonova.gpu.mig.parted.config_file import ConfigFile, ConfigRule
from kilonova.scheduler.core.gpu.mig import place_instances

_NVIDIA = 0x10DE


def _ids(*devices: int) -> tuple[int, ...]:
    return tuple(device << 16 | _NVIDIA for device in devices)


PCI_IDS: Mapping[str, tuple[int, ...]] = {
    "A100-40GB": _ids(0x20B0, 0x20B1, 0x20F1, 0x20F6),
    "A100-80GB": _ids(0x20B2, 0x20B5, 0x20F3, 0x20F5),
    "H100-80GB": _ids(0x2330, 0x2331, 0x2322, 0x2324),
    "H100-94GB": _ids(0x2321, 0x233A),
    "H100-96GB": _ids(0x2342, 0x233D, 0x20B6, 0x2329),
    "H200-141GB": _ids(0x2335, 0x233B),
    "GH200-144GB": _ids(0x2348),
    "B200-180GB": _ids(0x2901),
    "GB200-186GB": _ids(0x2941),
    "B300-269GB": _ids(0x3182),
    "GB300-278GB": _ids(0x31C2),
    "A30-24GB": _ids(0x20B7),
    "RTX-PRO-6000-96GB": _ids(0x2BB5),
}
"""The PCI device ids of products with a geometry, as in mig-parted's filters."""


def generate_configs(geometries: Sequence[MigGeometry] = ()) -> ConfigFile:
    """The configs for devices of these geometries; of all in the catalog if none is given."""
    known = list(dict.fromkeys(geometries or known_geometries()))
    configs: dict[str, Sequence[ConfigRule]] = {
        "all-disabled": (ConfigRule(False),),
        "all-enabled": (ConfigRule(True),),
    }
    balanced = [(geometry, layout) for geometry in known if (layout := _balanced_layout(geometry))]
    configs |= _config("all-balanced", balanced)
    by_name: dict[str, list[tuple[MigGeometry, _Layout]]] = defaultdict(list)
    for geometry in known:
        for profile in geometry.profiles:
            by_name[profile.name].append((geometry, ((profile.name, profile.limit),)))
    for name, layouts in sorted(by_name.items()):
        configs |= _config(f"all-{name.replace('+', '.')}", layouts)
    return configs


_Layout = tuple[tuple[str, int], ...]


def _config(
    name: str, layouts: Sequence[tuple[MigGeometry, _Layout]]
) -> dict[str, Sequence[ConfigRule]]:
    """One rule per layout; with filters where there are several."""
    groups: dict[_Layout, list[int]] = defaultdict(list)
    for geometry, layout in layouts:
        groups[layout] += PCI_IDS.get(geometry.name, ())
    if not groups:
        return {}
    if len(groups) == 1:
        return {name: (ConfigRule(True, next(iter(groups))),)}
    return {
        name: tuple(ConfigRule(True, layout, tuple(ids)) for layout, ids in groups.items() if ids)
    }


def _balanced_layout(geometry: MigGeometry) -> _Layout:
    """Two of the smallest, one of 2g and, where there are seven compute slices, one of 3g."""
    smallest = _plain_profile(geometry, 1)
    double, triple = _plain_profile(geometry, 2), _plain_profile(geometry, 3)
    if smallest is None or double is None:
        return ()
    layout = ((smallest.name, 2), (double.name, 1), *([(triple.name, 1)] if triple else []))
    wanted = [name for name, count in layout for _ in range(count)]
    return layout if place_instances(geometry, 0, wanted) is not None else ()


def _plain_profile(geometry: MigGeometry, compute: int) -> MigProfile | None:
    """The profile of that size with the least memory, and no engines of its own."""
    able = [
        profile
        for profile in geometry.profiles
        if profile.compute == compute and "+" not in profile.name and "-" not in profile.name
    ]
    return min(able, key=lambda profile: profile.slices, default=None)
