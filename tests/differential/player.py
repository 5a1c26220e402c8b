"""Plays a case against one server and keeps what the server answered."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from tests.differential.case import TYPES, Case, Step
from tests.harness.access import Access
from tests.harness.kubectl import Kubectl

HEADERS = ("content-type", "warning", "retry-after", "vary", "allow", "location")
"""What is compared of a reply's headers."""

_PATIENCE = 15.0
_AGENT = "differential/1.0"

Observation = dict[str, Any]
"""What one step brought: `code`, `headers` and `body`, or `events`, or `out` and `err`."""


@dataclass
class Server:
    """One side of the comparison."""

    name: str
    access: Access
    kubectl: Kubectl


def play(case: Case, server: Server) -> list[Observation]:
    """Run the steps in a fresh namespace; what each brought, in order."""
    with ExitStack() as open_things:
        player = _Player(case, server, open_things)
        player.make_namespace()
        return [player.take(step) for step in case.steps]


class _Player:
    def __init__(self, case: Case, server: Server, open_things: ExitStack) -> None:
        self._server = server
        self._open_things = open_things
        self._values = {"ns": case.namespace, "server": server.access.url}
        self._connections: dict[bool, http.client.HTTPSConnection] = {}
        self._streams: dict[str, Iterator[Any]] = {}
        self._home = server.kubectl.home

    def make_namespace(self) -> None:
        """With what controllers put into a new one, so that a case never races with them."""
        name = self._values["ns"]
        self._request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        for inhabitant in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            path = f"/api/v1/namespaces/{name}/{inhabitant}"
            _until(lambda path=path: self._request("GET", path), 200)

    def take(self, step: Step) -> Observation:
        step = step.filled(self._values)
        if step.kubectl:
            return self._command(step)
        if step.watch or step.read:
            return self._stream(step)
        method, _, target = step.do.partition(" ")
        observation = _until(
            lambda: self._request(
                method,
                target,
                step.body,
                step.text,
                TYPES.get(step.type, step.type),
                step.headers,
                step.certificate,
            ),
            step.until,
        )
        for name, path in step.save.items():
            self._values[name] = str(_at(observation["body"], path))
        if step.pick:
            observation["body"] = {path: _at(observation["body"], path) for path in step.pick}
        return observation

    def _request(
        self,
        method: str,
        target: str,
        body: Any = None,
        text: str = "",
        content_type: str = "",
        headers: Any = None,
        certificate: bool = True,
    ) -> Observation:
        content = text.encode() if body is None else json.dumps(body).encode()
        sent = {"user-agent": _AGENT, "accept": "application/json"}
        if content or content_type:
            sent["content-type"] = content_type or "application/json"
        sent.update(headers or {})
        connection = self._connections.get(certificate)
        if connection is None:
            connection = self._connections[certificate] = self._connect(certificate)
        with suppress(BrokenPipeError):  # a body too large is answered before it is read
            connection.request(method, target, content or None, sent)
        return _whole(connection.getresponse())

    def _stream(self, step: Step) -> Observation:
        observation: Observation = {}
        if step.watch:
            connection = self._connect()
            mark = "&" if "?" in step.watch else "?"
            sent = {"user-agent": _AGENT, "accept": "application/json", **step.headers}
            connection.request("GET", f"{step.watch}{mark}watch=true", headers=sent)
            reply = connection.getresponse()
            self._open_things.callback(reply.close)
            if reply.status != 200:
                return _whole(reply)
            observation = {"code": 200, "headers": _compared(reply)}
            self._streams[step.as_] = (json.loads(line) for line in reply if line.strip())
        if step.events is not None or not step.as_:
            events = self._streams[step.as_ or step.read]
            count = step.events if step.events is not None else 1_000_000
            observation["events"] = [event for _, event in zip(range(count), events, strict=False)]
        return observation

    def _command(self, step: Step) -> Observation:
        for name, text in step.files.items():
            (self._home / name).write_text(text)
        outcome = self._server.kubectl(
            step.kubectl, stdin=step.stdin, namespace=self._values["ns"], env=step.env
        )
        return {"code": outcome.code, "out": outcome.out, "err": outcome.err}

    def _connect(self, certificate: bool = True) -> http.client.HTTPSConnection:
        access = self._server.access
        context = access.ssl_context(as_administrator=certificate)
        connection = http.client.HTTPSConnection(
            access.host, access.port, timeout=_PATIENCE, context=context
        )
        self._open_things.callback(connection.close)
        return connection


def _whole(reply: http.client.HTTPResponse) -> Observation:
    content = reply.read()
    body: Any = content.decode(errors="replace")
    if "json" in reply.headers.get("content-type", ""):
        body = json.loads(content)
    return {"code": reply.status, "headers": _compared(reply), "body": body}


def _compared(reply: http.client.HTTPResponse) -> dict[str, str]:
    found = {name: reply.headers.get_all(name) for name in HEADERS}
    return {name: ", ".join(values) for name, values in found.items() if values}


def _until(ask: Callable[[], Observation], wanted: Any) -> Observation:
    """Ask until the answer is as wanted; the last answer, when patience ends."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        observation = ask()
        if wanted is None or _is(observation, wanted) or time.monotonic() > deadline:
            return observation
        time.sleep(0.01)


def _is(observation: Observation, wanted: Any) -> bool:
    if isinstance(wanted, int):
        return observation["code"] == wanted
    return all(_at(observation["body"], path) == value for path, value in wanted.items())


def _at(body: Any, path: str) -> Any:
    """The value at `items.0.metadata.name`, or None."""
    for part in path.split("."):
        if isinstance(body, list) and part.isdigit():
            body = body[int(part)] if int(part) < len(body) else None
        elif isinstance(body, dict):
            body = body.get(part.replace("~", "."))
        else:
            return None
    return body
