"""What is known of a key of a values file."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

Path = tuple[str, ...]
"""The names from the top of the file: some contain dots, as `grafana.ini`."""


class ValueType(StrEnum):
    """What may be written as a value; the words are those of messages and of the reference."""

    TEXT = "text"
    FLAG = "true or false"
    WHOLE = "a whole number"
    NUMBER = "a number"
    DURATION = "a duration"
    TEXTS = "a list of texts"
    OBJECTS = "a list of objects"
    OBJECT = "an object"
    MAP = "an object of texts"
    """Labels, annotations: true and numbers are taken as the texts that they are written as."""
    ANYTHING = "anything"


class Effect(StrEnum):
    """What a key does here."""

    HONOURED = "honoured"
    UNUSED = "without effect"
    """It configures something that is not there; a value other than the default is reported."""
    REFUSED = "refused"
    """A value other than the default ends the conversion, with the reason."""


ABSENT: Final[Any] = object()
"""The default of a key that is not set by default."""


@dataclass(frozen=True, slots=True)
class ValueKey:
    """A key, and all that is to be said of it: a row of the reference."""

    path: Path
    type: ValueType
    default: Any
    meaning: str
    effect: Effect = Effect.HONOURED
    here: str = ""
    """What it becomes, or why it is refused and what to do instead."""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    of_ours: bool = field(default=False, kw_only=True)
    """Whether SuperSONIC lacks it."""

    @property
    def name(self) -> str:
        """The key as it is written in texts: `grafana."grafana.ini".server.root_url`."""
        return format_path(self.path)


def format_path(path: Path) -> str:
    """A path as it is written in texts."""
    return ".".join(f'"{each}"' if "." in each else each for each in path)
