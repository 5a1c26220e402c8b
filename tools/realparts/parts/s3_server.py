"""An S3 server on a directory: Versity's gateway."""

from tools.realparts.part import CachedPart
from tools.realparts.sources.go_modules import GoModules

PART = CachedPart(
    name="s3-server",
    version="v1.8.0",
    source=GoModules(
        lock="s3-server",
        commands={"versitygw": "github.com/versity/versitygw/cmd/versitygw"},
    ),
)
