"""The chain of admission plug-ins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kilonova.api.json import JsonObject
from kilonova.local.auth import User
from kilonova.local.routes import Target

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """A write that is about to happen. Plug-ins may change `obj` while mutating, only then."""

    operation: Operation
    target: Target
    user: User
    obj: JsonObject | None
    old: JsonObject | None
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list[str])


class Plugin(Protocol):
    """One opinion. Raises ApiError to refuse."""

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...


class Admission:
    """All plug-ins, in order."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._plugins = list(plugins)

    async def mutate(self, attributes: Attributes) -> None:
        for plugin in self._plugins:
            await plugin.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._plugins:
            await plugin.validate(attributes)
