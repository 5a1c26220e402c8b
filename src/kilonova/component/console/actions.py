"""Actions on the objects of a table, allowed by `--allow-actions`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kilonova.component.console.pages import DescriptionStruct
from kilonova.kube import Client, Resource


class ActionRejected(Exception):
    """An action that cannot be performed as requested; the message states why."""


class ValueInput(DescriptionStruct, frozen=True):
    """A whole number that the user enters for an action."""

    label: str
    """`Replicas`."""
    field: str = ""
    """The field of the row with the current value."""
    minimum: int = 0
    maximum: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """A confirmed action on one object."""

    client: Client
    """With the permissions of the console."""
    resource: Resource[Any]
    namespace: str
    name: str
    value: int = 0
    """The value that the user entered, if the action has an input: checked against its limits."""

    @property
    def target(self) -> str:
        """`Node n1`, `Job team/train`: for messages."""
        id = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.resource.kind} {id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that users may do to an object of a table.

    `perform` returns a message about its result. It raises `ActionRejected` for a request that
    cannot be performed; errors of the API server are passed on to the user.
    """

    name: str
    """In requests: `scale`. Unique for its table."""
    table: str
    perform: Callable[[ActionRequest], Awaitable[str]]
    title: str = ""
    """The label of the button: `Scale`."""
    text: str = ""
    """What the confirmation states will happen. Without it there is no button: the view of the page
    offers the action itself."""
    danger: bool = False
    """Whether the button warns."""
    when: str = ""
    """The boolean field of the row that has to be true; with a leading `!`, false."""
    value: ValueInput | None = None
