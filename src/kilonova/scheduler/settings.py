"""What can be set about a scheduler."""

from dataclasses import dataclass, field

from kilonova.scheduler.core.plan import Policy


@dataclass(frozen=True, slots=True)
class Settings:
    """How it decides, and how it writes."""

    policy: Policy = field(default_factory=Policy)
    concurrency: int = 96
    """Bindings that are on their way at once."""
    retry: float = 10.0
    """Seconds after which gangs without a place are tried again though nothing happened: rights to
    push others out come with time."""
    patience: float = 120.0
    """Seconds that pods which have to make way are waited for."""
    pace: float = 5.0
    """Seconds between two changes of what is told about one gang."""
