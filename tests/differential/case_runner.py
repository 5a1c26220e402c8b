"""Runs a case against one server and records the responses."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from tests.differential.case import CONTENT_TYPES, Case, Step
from tests.harness.access import ServerAccess
from tests.harness.kubectl import Kubectl

COMPARED_HEADERS = ("content-type", "warning", "retry-after", "vary", "allow", "location")
"""What is compared of a reply's headers."""

_TIMEOUT_SECONDS = 15.0
_USER_AGENT = "differential/1.0"

Observation = dict[str, Any]
"""What one step brought: `code`, `headers` and `body`, or `events`, or `out` and `err`."""


@dataclass
class ComparedServer:
    """One side of the comparison."""

    name: str
    access: ServerAccess
    kubectl: Kubectl


def run_case(case: Case, server: ComparedServer) -> list[Observation]:
    """Run the steps in a fresh namespace; the observations in order."""
    with ExitStack() as open_things:
        player = _CaseRunner(case, server, open_things)
        player.create_namespace()
        return [player.run_step(step) for step in case.steps]


class _CaseRunner:
    def __init__(self, case: Case, server: ComparedServer, open_things: ExitStack) -> None:
        self._server = server
        self._resources = open_things
        self._values = {"ns": case.namespace, "server": server.access.url}
        self._connections: dict[bool, http.client.HTTPSConnection] = {}
        self._streams: dict[str, Iterator[Any]] = {}
        self._home = server.kubectl.home

    def create_namespace(self) -> None:
        """Create the namespace and wait for controllers' objects in it, so that a case never races
        with them.
        """
        name = self._values["ns"]
        self._send_request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        for inhabitant in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            path = f"/api/v1/namespaces/{name}/{inhabitant}"
            _wait_until(lambda path=path: self._send_request("GET", path), 200)

    def run_step(self, step: Step) -> Observation:
        step = step.substitute(self._values)
        if step.kubectl:
            return self._run_kubectl(step)
        if step.watch or step.read:
            return self._run_watch(step)
        method, _, target = step.do.partition(" ")
        observation = _wait_until(
            lambda: self._send_request(
                method,
                target,
                step.body,
                step.text,
                CONTENT_TYPES.get(step.type, step.type),
                step.headers,
                step.certificate,
            ),
            step.until,
        )
        for name, path in step.save.items():
            self._values[name] = str(_get_value(observation["body"], path))
        if step.pick:
            observation["body"] = {
                path: _get_value(observation["body"], path) for path in step.pick
            }
        return observation

    def _send_request(
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
        sent = {"user-agent": _USER_AGENT, "accept": "application/json"}
        if content or content_type:
            sent["content-type"] = content_type or "application/json"
        sent.update(headers or {})
        connection = self._connections.get(certificate)
        if connection is None:
            connection = self._connections[certificate] = self._connect(certificate)
        with suppress(BrokenPipeError):  # a body that is too large is rejected before it is read
            connection.request(method, target, content or None, sent)
        return _read_response(connection.getresponse())

    def _run_watch(self, step: Step) -> Observation:
        observation: Observation = {}
        if step.watch:
            connection = self._connect()
            mark = "&" if "?" in step.watch else "?"
            sent = {"user-agent": _USER_AGENT, "accept": "application/json", **step.headers}
            connection.request("GET", f"{step.watch}{mark}watch=true", headers=sent)
            reply = connection.getresponse()
            self._resources.callback(reply.close)
            if reply.status != 200:
                return _read_response(reply)
            observation = {"code": 200, "headers": _select_headers(reply)}
            self._streams[step.as_] = (json.loads(line) for line in reply if line.strip())
        if step.events is not None or not step.as_:
            events = self._streams[step.as_ or step.read]
            count = step.events if step.events is not None else 1_000_000
            observation["events"] = [event for _, event in zip(range(count), events, strict=False)]
        return observation

    def _run_kubectl(self, step: Step) -> Observation:
        for name, text in step.files.items():
            (self._home / name).write_text(text)
        outcome = self._server.kubectl(
            step.kubectl, stdin=step.stdin, namespace=self._values["ns"], env=step.env
        )
        return {"code": outcome.code, "out": outcome.out, "err": outcome.err}

    def _connect(self, certificate: bool = True) -> http.client.HTTPSConnection:
        access = self._server.access
        context = access.ssl_context(with_client_certificate=certificate)
        connection = http.client.HTTPSConnection(
            access.host, access.port, timeout=_TIMEOUT_SECONDS, context=context
        )
        self._resources.callback(connection.close)
        return connection


def _read_response(reply: http.client.HTTPResponse) -> Observation:
    content = reply.read()
    body: Any = content.decode(errors="replace")
    if "json" in reply.headers.get("content-type", ""):
        body = json.loads(content)
    return {"code": reply.status, "headers": _select_headers(reply), "body": body}


def _select_headers(reply: http.client.HTTPResponse) -> dict[str, str]:
    found = {name: reply.headers.get_all(name) for name in COMPARED_HEADERS}
    return {name: ", ".join(values) for name, values in found.items() if values}


def _wait_until(ask: Callable[[], Observation], wanted: Any) -> Observation:
    """Repeat a request until the response is as expected; returns the last one after the
    timeout.
    """
    started = time.monotonic()
    while True:
        observation = ask()
        waited = time.monotonic() - started
        if wanted is None or _matches(observation, wanted) or waited > _TIMEOUT_SECONDS:
            return observation
        time.sleep(max(0.01, waited / 10))


def _matches(observation: Observation, wanted: Any) -> bool:
    if isinstance(wanted, int):
        return observation["code"] == wanted
    return all(_get_value(observation["body"], path) == value for path, value in wanted.items())


def _get_value(body: Any, path: str) -> Any:
    """The value at `items.0.metadata.name`, or None."""
    for part in path.split("."):
        if isinstance(body, list) and part.isdigit():
            body = body[int(part)] if int(part) < len(body) else None
        elif isinstance(body, dict):
            body = body.get(part.replace("~", "."))
        else:
            return None
    return body
