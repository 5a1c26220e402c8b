"""The parts, in the order in which they are got."""

from pathlib import Path

from tools.realparts.part import Part
from tools.realparts.parts import (
    chromium,
    cni_plugins,
    containerd,
    control_plane,
    envoy,
    k6,
    kubelet,
    oci_registry,
    otelcol,
    pause,
    peers,
    prometheus,
    runc,
    s3_server,
    triton,
    tritonclient,
)

PARTS: tuple[Part, ...] = (
    chromium.PART,
    prometheus.PART,
    envoy.PART,
    triton.PART,
    tritonclient.PART,
    k6.PART,
    cni_plugins.PART,
    control_plane.PART,
    kubelet.PART,
    pause.PART,
    containerd.PART,
    runc.PART,
    s3_server.PART,
    oci_registry.PART,
    otelcol.PART,
)
"""Those that the full test suite runs."""
ON_DEMAND: tuple[Part, ...] = (peers.KSERVE, peers.RAY_SERVE)
"""Those of benchmarks, which are got when they are named."""


def find_part(name: str) -> Path | None:
    """The folder of a part (of a browser: its command), or None unless it is complete."""
    return get_part(name).find()


def get_part(name: str) -> Part:
    """The part of that name; raises `KeyError`."""
    return {part.name: part for part in (*PARTS, *ON_DEMAND)}[name]


def missing_part_message(name: str) -> str:
    """What to do when `find_part` finds nothing."""
    return f"no {name} on this machine: `make real-parts ARGS={name}` gets it, once"
