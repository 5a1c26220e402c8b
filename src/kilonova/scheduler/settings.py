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
