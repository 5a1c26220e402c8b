"""The kubelet of the real node, of the same modules as the control plane."""

from tools.realparts.part import CachedPart
from tools.realparts.parts.control_plane import LINKER_FLAGS, LOCK, VERSION
from tools.realparts.sources.go_modules import GoModules

PART = CachedPart(
    name="kubelet",
    version=VERSION,
    source=GoModules(
        lock=LOCK,
        commands={"kubelet": "k8s.io/kubernetes/cmd/kubelet"},
        linker_flags=LINKER_FLAGS,
    ),
)
