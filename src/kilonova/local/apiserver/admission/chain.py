"""The chain of admission plugins."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.admission.in_process import Operation
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.auth import User
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.server.warning_headers import warning_header


class Reinvocation(msgspec.Struct):
    """The state of one write between its two passes of mutation.

    A plugin may need to see the object again after a later plugin changed it: the second pass runs
    all in-process plugins, and of the policies and webhooks those in `to_reinvoke`.
    """

    is_reinvocation: bool = False
    is_needed: bool = False
    invoked: set[str] = set()
    """Those that must be reinvoked if the object changes after them."""
    to_reinvoke: set[str] = set()
    last_object: JsonObject | None = None
    """The object after the last of them."""

    def object_changed(self) -> None:
        """Mark everything invoked so far for reinvocation."""
        self.is_needed = True
        self.to_reinvoke |= self.invoked
        self.invoked = set()


class Attributes(msgspec.Struct):
    """A write before it is stored. Plugins may change `obj` while mutating, and only then.

    Objects are in the storage version; `version_conversion` converts them to others.
    """

    operation: Operation
    target: ResourceTarget
    user: User
    obj: JsonObject | None
    old: JsonObject | None
    dry_run: bool = False
    warnings: list[str] = []
    options: Callable[[], JsonObject] = dict[str, Any]
    """The options of the request as an object; built on demand."""
    reinvocation: Reinvocation = msgspec.field(default_factory=Reinvocation)
    verb: str = ""
    """The verb on an existing object: `update` or `patch`."""

    @property
    def name(self) -> str:
        """The object's name; empty before it is generated."""
        if self.target.name or self.obj is None:
            return self.target.name
        metadata: JsonObject = self.obj.get("metadata") or {}
        return metadata.get("name", "")

    @property
    def namespace(self) -> str:
        """The namespace of the object; a namespace counts as being in itself."""
        kind = self.target.kind
        if kind.plural == "namespaces" and not kind.group:
            return self.name
        return self.target.namespace


@runtime_checkable
class Mutator(Protocol):
    """A plugin that may change the object. Raises ApiError to reject it."""

    async def mutate(self, attributes: Attributes) -> None: ...


@runtime_checkable
class Validator(Protocol):
    """A plugin that checks the final object. Raises ApiError to reject it."""

    async def validate(self, attributes: Attributes) -> None: ...


Plugin = Mutator | Validator


class AdmissionChain:
    """All plugins, in order."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._mutators = [each for each in plugins if isinstance(each, Mutator)]
        self._validators = [each for each in plugins if isinstance(each, Validator)]

    async def mutate(self, attributes: Attributes) -> None:
        """Run the mutating plugins; `attributes.obj` replaces the object that was sent."""
        try:
            for plugin in self._mutators:
                await plugin.mutate(attributes)
            if attributes.reinvocation.is_needed:
                attributes.reinvocation.is_reinvocation = True
                for plugin in self._mutators:
                    await plugin.mutate(attributes)
        except ApiError as error:
            _add_warnings(error, attributes)
            raise

    async def validate(self, attributes: Attributes) -> None:
        try:
            for plugin in self._validators:
                await plugin.validate(attributes)
        except ApiError as error:
            _add_warnings(error, attributes)
            raise

    async def admit(self, attributes: Attributes) -> JsonObject:
        """Mutate and validate, for objects that are not stored: a binding, a review, an exec."""
        await self.mutate(attributes)
        await self.validate(attributes)
        assert attributes.obj is not None
        return attributes.obj

    async def connect(
        self, target: ResourceTarget, user: User, options: JsonObject, warnings: list[str]
    ) -> JsonObject:
        """Admit a connection (`pods/exec`, `attach`, `portforward`, `proxy`).

        `options` are the query as an object: `{"kind": "PodExecOptions", "apiVersion": "v1",
        "container": …}`. Returns them after admission; raises ApiError if the connection is
        rejected.
        """
        return await self.admit(
            Attributes("CONNECT", target, user, options, None, warnings=warnings)
        )


def _add_warnings(error: ApiError, attributes: Attributes) -> None:
    """A rejection also carries the warnings of other plugins."""
    if attributes.warnings:
        error.headers["warning"] = warning_header(attributes.warnings)
