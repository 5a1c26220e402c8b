"""An OCI registry: that of the distribution project."""

from tools.realparts.part import CachedPart
from tools.realparts.sources.go_modules import GoModules

PART = CachedPart(
    name="oci-registry",
    version="v3.1.2",
    source=GoModules(
        lock="oci-registry",
        commands={"registry": "github.com/distribution/distribution/v3/cmd/registry"},
    ),
)
