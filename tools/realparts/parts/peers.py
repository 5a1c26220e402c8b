"""Servers that benchmarks compare with, each in an environment of its own.

No test needs them, and they are large: they are got when they are named.
"""

from tools.realparts.part import CachedPart
from tools.realparts.sources.wheels import Wheels

KSERVE = CachedPart(
    "peer-kserve", "0.21.0", Wheels("peer-kserve", files=("kserve/model_server.py",))
)
RAY_SERVE = CachedPart(
    "peer-ray-serve", "2.60.0", Wheels("peer-ray-serve", files=("ray/serve/__init__.py", "bin/ray"))
)
