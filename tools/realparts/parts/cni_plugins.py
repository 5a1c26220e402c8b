"""Network plugins of the real node, from Debian."""

from tools.realparts.part import CachedPart
from tools.realparts.sources.debian import DEBIAN, DebianPackages

FOLDER = "usr/lib/cni"

PART = CachedPart(
    name="cni-plugins",
    version=DEBIAN,
    source=DebianPackages(
        packages=("containernetworking-plugins",),
        files=tuple(f"{FOLDER}/{name}" for name in ("bridge", "host-local", "loopback", "portmap")),
    ),
)
