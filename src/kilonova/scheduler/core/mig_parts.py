"""The devices that can be split, as NVIDIA documents them, found by what a device is called.

What an agent has read from a device itself goes before these tables: see `Geometry`. Of the
RTX PRO parts the `+me.all` profiles are left out: beside one, every other instance must be a `-me`
one, which a mask does not tell.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from kilonova.scheduler.core.mig import Geometry, Profile


@lru_cache(maxsize=1024)
def geometry_of(product: str, memory: int = 0) -> Geometry | None:
    """The geometry of a device by its product (`NVIDIA-H100-80GB-HBM3`) and memory in MiB.

    Products may be written with spaces, as NVML does. The memory decides between parts of one
    family; without it, what the product says of it; else the family's first. None: it cannot be
    split, or nobody has told us how.
    """
    words = re.split(r"[-\s_]+", product.upper())
    family = next((_FAMILIES[word] for word in words if word in _FAMILIES), None)
    if "RTX" in words and "PRO" in words:
        family = next((f"RTX-PRO-{word}" for word in words if word in _RTX_PRO), None)
    parts = [part for part in _PARTS if part.family == family]
    if not parts:
        return None
    if memory > 0:
        return min(parts, key=lambda part: abs(part.memory - memory / 1024)).geometry
    sizes = {int(size) for size in re.findall(r"\b(\d+)GB?\b", " ".join(words))}
    if "NVL" in words:
        sizes.add(_NVL)
    return next((part for part in parts if part.memory in sizes), parts[0]).geometry


def known_geometry(name: str) -> Geometry | None:
    """The geometry of that name: `H100-80GB`."""
    return _BY_NAME.get(name)


def known_geometries() -> tuple[Geometry, ...]:
    """All that there are tables of."""
    return tuple(_BY_NAME.values())


class _Part(NamedTuple):
    family: str
    memory: int
    """GiB, as it is sold."""
    geometry: Geometry


def _of_seven(
    name: str, single: int, double: int, half: int, full: int, *aliases: tuple[str, str]
) -> Geometry:
    """Eight memory slices and seven compute slices; sizes are the memory in the profiles' names."""
    anywhere = tuple(range(7))
    return Geometry(
        name,
        (
            Profile(f"1g.{single}gb", 1, 1, anywhere, 7),
            Profile(f"1g.{single}gb+me", 1, 1, anywhere, 1, extended=True),
            Profile(f"1g.{double}gb", 1, 2, (0, 2, 4, 6), 4),
            Profile(f"2g.{double}gb", 2, 2, (0, 2, 4), 3),
            Profile(f"3g.{half}gb", 3, 4, (0, 4), 2),
            Profile(f"4g.{half}gb", 4, 4, (0,), 1),
            Profile(f"7g.{full}gb", 7, 8, (0,), 1),
        ),
        aliases,
    )


def _of_quarters(name: str, quarters: int, memory: int, *variants: tuple[str, int]) -> Geometry:
    """As many memory as compute slices; variants are (suffix, up to which size)."""
    profiles: list[Profile] = []
    size = 1
    while size <= quarters:
        starts = tuple(range(0, quarters, size))
        for suffix, largest in (("", quarters), *variants):
            if size <= largest:
                alone = suffix == "+me"
                limit = 1 if alone else len(starts)
                title = f"{size}g.{memory * size // quarters}gb{suffix}"
                profiles.append(Profile(title, size, size, starts, limit, extended=alone))
        size *= 2
    return Geometry(name, tuple(profiles))


_NVL = 94
_RTX_PRO = ("6000", "5000", "4500")
_A100_40 = _of_seven("A100-40GB", 5, 10, 20, 40)
_A100_80 = _of_seven("A100-80GB", 10, 20, 40, 80, ("7g.79gb", "7g.80gb"))
_H100_80 = _of_seven("H100-80GB", 10, 20, 40, 80, ("7g.79gb", "7g.80gb"))
_H100_94 = _of_seven("H100-94GB", 12, 24, 47, 94)
_H100_96 = _of_seven("H100-96GB", 12, 24, 48, 96)
_H200 = _of_seven("H200-141GB", 18, 35, 71, 141)
_GH200_144 = _of_seven("GH200-144GB", 18, 36, 72, 144)
_B200 = _of_seven("B200-180GB", 23, 45, 90, 180)
_GB200 = _of_seven(
    "GB200-186GB", 23, 47, 93, 186,
    ("3g.95gb", "3g.93gb"), ("4g.95gb", "4g.93gb"), ("7g.189gb", "7g.186gb"),
)  # fmt: skip
_B300 = _of_seven("B300-269GB", 34, 67, 135, 269)
_GB300 = _of_seven("GB300-278GB", 35, 70, 139, 278)
_A30 = _of_quarters("A30-24GB", 4, 24, ("+me", 2))
_RTX_6000 = _of_quarters("RTX-PRO-6000-96GB", 4, 96, ("+me", 1), ("+gfx", 4), ("-me", 2))
_RTX_5000 = _of_quarters("RTX-PRO-5000-48GB", 2, 48, ("+me", 1), ("+gfx", 2), ("-me", 1))
_RTX_4500 = _of_quarters("RTX-PRO-4500-32GB", 2, 32, ("+gfx", 2), ("-me", 1))

_FAMILIES = {
    word: family
    for family, words in {
        "A100": ("A100", "A800"),
        "H100": ("H100", "H800"),
        "H20": ("H20",),
        "H200": ("H200",),
        "GH200": ("GH200",),
        "B200": ("B200",),
        "GB200": ("GB200",),
        "B300": ("B300",),
        "GB300": ("GB300",),
        "A30": ("A30",),
    }.items()
    for word in words
}
_PARTS = (
    _Part("A100", 40, _A100_40),
    _Part("A100", 80, _A100_80),
    _Part("H100", 80, _H100_80),
    _Part("H100", _NVL, _H100_94),
    _Part("H100", 96, _H100_96),
    _Part("H20", 96, _H100_96),
    _Part("H20", 141, _H200),
    _Part("H200", 141, _H200),
    _Part("GH200", 96, _H100_96),
    _Part("GH200", 144, _GH200_144),
    _Part("B200", 180, _B200),
    _Part("GB200", 186, _GB200),
    _Part("B300", 269, _B300),
    _Part("GB300", 278, _GB300),
    _Part("A30", 24, _A30),
    _Part("RTX-PRO-6000", 96, _RTX_6000),
    _Part("RTX-PRO-5000", 48, _RTX_5000),
    _Part("RTX-PRO-4500", 32, _RTX_4500),
)
_BY_NAME = {part.geometry.name: part.geometry for part in _PARTS}
