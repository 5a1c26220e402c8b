"""containerd, the container runtime of the real node, with its shim and its client.

Debian's version drops CDI devices without a word: a pod with a DRA claim would run without them.
"""

from tools.realparts.part import CachedPart
from tools.realparts.sources.go_modules import GoModules

_VERSION = "v2.3.5"
_MODULE = "github.com/containerd/containerd/v2"

PART = CachedPart(
    name="containerd",
    version=_VERSION,
    source=GoModules(
        lock="containerd",
        commands={
            name: f"{_MODULE}/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
        linker_flags=f"-X {_MODULE}/version.Version={_VERSION}",
        tags="no_btrfs no_zfs no_devmapper no_aufs",
    ),
)
