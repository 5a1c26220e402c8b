"""Requests for actions: decoded, checked, and performed."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilonova.component.console import Action, ActionRejected, ActionRequest, Table, ValueInput
from kilonova.console.web.responses import RequestRejected
from kilonova.kube import Client


class ActionBody(msgspec.Struct, frozen=True):
    """An action on the object of a row, as the page sends it."""

    action: str
    table: str
    id: str
    value: int | None = None
    """What the user entered, if the action has an input."""


class ActionPerformer:
    """Performs the actions that components contribute."""

    def __init__(
        self, client: Client, tables: Mapping[str, Table[Any]], actions: Iterable[Action]
    ) -> None:
        self._client = client
        self._tables = tables
        self._actions: dict[str, dict[str, Action]] = {}
        for each in actions:
            self._actions.setdefault(each.name, {})[each.table] = each

    async def perform(self, body: ActionBody) -> str:
        """Perform an action and return a message; `RequestRejected` if it is invalid."""
        action = self._find_action(body)
        table = self._tables[action.table]
        try:
            namespace, name = table.key_of(body.id)
        except ValueError as error:
            raise RequestRejected(400, str(error)) from error
        value = 0 if action.value is None else _check_value(action.value, body.value)
        request = ActionRequest(self._client, table.resource, namespace, name, value)
        try:
            return await action.perform(request)
        except ActionRejected as rejection:
            raise RequestRejected(400, str(rejection)) from rejection

    def _find_action(self, body: ActionBody) -> Action:
        by_table = self._actions.get(body.action)
        if by_table is None:
            known = ", ".join(sorted(self._actions))
            raise RequestRejected(400, f"unknown action {body.action!r}: want one of {known}")
        if body.table not in by_table:
            *others, last = sorted(by_table)
            only = f"{', '.join(others)} and {last}" if others else last
            raise RequestRejected(400, f"cannot {body.action} {body.table}: only {only}")
        return by_table[body.table]


def _check_value(input: ValueInput, value: int | None) -> int:
    if value is None or not input.minimum <= value <= input.maximum:
        limits = f"{input.minimum} to {input.maximum}"
        raise RequestRejected(400, f"{input.label.lower()} is {value}: want a number, {limits}")
    return value
