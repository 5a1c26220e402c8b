"""Of a cluster that `kilonova up` runs: how to know it, and how its scheduler decides."""

from kilonova.api.schedulingnames import SCHEDULER
from kilonova.scheduler.settings import Settings

EMBEDDED = "+kilonova"
"""In the version of its server."""
_DEFAULT_SCHEDULER = "default-scheduler"
SETTINGS = Settings(serves=frozenset({SCHEDULER, _DEFAULT_SCHEDULER}))
"""Pods that name no scheduler are placed, too."""
