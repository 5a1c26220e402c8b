"""The chain of admission plug-ins."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.auth import User
from kilonova.local.errors import ApiError
from kilonova.local.routes import Target
from kilonova.local.warningheaders import warning_header

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Rounds(msgspec.Struct):
    """What is remembered of one write between its two rounds of mutation.

    Who came before somebody that changed the object may want to see it again: a second round
    asks everybody in process, and of the others those in `again`.
    """

    second: bool = False
    wanted: bool = False
    asked: set[str] = set()
    """Those who want to be asked again if the object changes after them."""
    again: set[str] = set()
    seen: JsonObject | None = None
    """The object as the last of them left it."""

    def object_changed(self) -> None:
        """Everybody asked so far is due again."""
        self.wanted = True
        self.again |= self.asked
        self.asked = set()


class Attributes(msgspec.Struct):
    """A write that is about to happen. Plug-ins may change `obj` while mutating, only then.

    Objects are in the version that is stored; `versions.py` shows them in others.
    """

    operation: Operation
    target: Target
    user: User
    obj: JsonObject | None
    old: JsonObject | None
    dry_run: bool = False
    warnings: list[str] = []
    options: Callable[[], JsonObject] = dict[str, Any]
    """The options of the request as an object; made when somebody wants to see them."""
    rounds: Rounds = msgspec.field(default_factory=Rounds)
    verb: str = ""
    """What the client does to an existing object: `update`, or `patch`."""

    @property
    def name(self) -> str:
        """The object's name; empty while it is still to be generated."""
        if self.target.name or self.obj is None:
            return self.target.name
        metadata: JsonObject = self.obj.get("metadata") or {}
        return metadata.get("name", "")

    @property
    def namespace(self) -> str:
        """Where the object is; a namespace counts as being in itself."""
        kind = self.target.kind
        if kind.plural == "namespaces" and not kind.group:
            return self.name
        return self.target.namespace


@runtime_checkable
class Mutator(Protocol):
    """One who may change the object. Raises ApiError to refuse."""

    async def mutate(self, attributes: Attributes) -> None: ...


@runtime_checkable
class Validator(Protocol):
    """One opinion on the object as it will be. Raises ApiError to refuse."""

    async def validate(self, attributes: Attributes) -> None: ...


Plugin = Mutator | Validator


class Admission:
    """All plug-ins, in order."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._mutators = [each for each in plugins if isinstance(each, Mutator)]
        self._validators = [each for each in plugins if isinstance(each, Validator)]

    async def mutate(self, attributes: Attributes) -> None:
        """Let everybody change the object; what was sent is replaced by `attributes.obj`."""
        try:
            for plugin in self._mutators:
                await plugin.mutate(attributes)
            if attributes.rounds.wanted:
                attributes.rounds.second = True
                for plugin in self._mutators:
                    await plugin.mutate(attributes)
        except ApiError as error:
            _tell_warnings(error, attributes)
            raise

    async def validate(self, attributes: Attributes) -> None:
        try:
            for plugin in self._validators:
                await plugin.validate(attributes)
        except ApiError as error:
            _tell_warnings(error, attributes)
            raise

    async def admit(self, attributes: Attributes) -> JsonObject:
        """Both, for what is asked about an object and not stored: a binding, a review, an exec."""
        await self.mutate(attributes)
        await self.validate(attributes)
        assert attributes.obj is not None
        return attributes.obj

    async def connect(
        self, target: Target, user: User, options: JsonObject, warnings: list[str]
    ) -> JsonObject:
        """Ask before a connection (`pods/exec`, `attach`, `portforward`, `proxy`) is made.

        `options` are what the query asks for, as an object: `{"kind": "PodExecOptions",
        "apiVersion": "v1", "container": …}`. Gives them back as admission leaves them; raises
        ApiError where somebody refuses.
        """
        return await self.admit(
            Attributes("CONNECT", target, user, options, None, warnings=warnings)
        )


def _tell_warnings(error: ApiError, attributes: Attributes) -> None:
    """Who is refused hears also what others only warned of."""
    if attributes.warnings:
        error.headers["warning"] = warning_header(attributes.warnings)
