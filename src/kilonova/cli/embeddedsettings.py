"""How the scheduler of a cluster that `kilonova up` runs decides."""

from kilonova.cli.served import SERVED_IN_UP
from kilonova.scheduler.settings import Settings

SETTINGS = Settings(serves=SERVED_IN_UP)
