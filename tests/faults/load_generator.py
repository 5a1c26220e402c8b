"""Threads that write to and watch a server that is killed and restarted."""

import contextlib
import http.client
import json
import random
import ssl
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.faults.write_ledger import KeyHistory, WatchedEvent, WriteLedger
from tests.harness.access import ServerAccess

_COLLECTION = "/api/v1/namespaces/default/configmaps"
_LABEL_SELECTOR = "labelSelector=load%3Dyes"
_CONNECTION_ERRORS = (OSError, http.client.HTTPException)


@dataclass
class LoadGenerator:
    """Writers and a watcher. They run while the gate is open, and wait while it is closed."""

    access: ServerAccess
    ledger: WriteLedger
    seed: int
    writers: int = 3
    keys: int = 20
    _server_up: threading.Event = field(default_factory=threading.Event)
    _stopped: bool = False
    _idle: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def start(self) -> None:
        for number in range(self.writers):
            self._start_thread(self._run_writer, number)
        self._start_thread(self._run_watcher)

    def resume(self) -> None:
        """The server is running."""
        self._server_up.set()

    def pause(self) -> None:
        """The server is down. Returns when no request is in flight."""
        self._server_up.clear()
        for _ in range(self.writers):
            self._idle.acquire()

    def stop(self) -> None:
        self._stopped = True
        self._server_up.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a thread of the load hangs"

    def list_values(self) -> tuple[int, dict[str, int]]:
        """The resourceVersion and the values of all objects of the load."""
        status, answer = self.access.request("GET", f"{_COLLECTION}?{_LABEL_SELECTOR}")
        assert status == 200, answer
        return int(answer["metadata"]["resourceVersion"]), {
            item["metadata"]["name"]: _get_value(item) for item in answer["items"]
        }

    def _start_thread(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_writer(self, number: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        names = [f"w{number}-{index}" for index in range(self.keys)]
        self.ledger.keys.update({name: KeyHistory() for name in names})
        context = self.access.ssl_context()
        while self._wait_for_server():
            with contextlib.suppress(*_CONNECTION_ERRORS), self._connect(context) as connection:
                for name in names:
                    self._resolve_unacknowledged(connection, name)
                while self._server_up.is_set() and not self._stopped:
                    self._write_once(connection, chance.choice(names), chance.random())
            if not self._stopped:
                self._wait_until_paused()
                self._idle.release()

    def _wait_for_server(self) -> bool:
        self._server_up.wait()
        return not self._stopped

    def _wait_until_paused(self) -> None:
        """The connection broke, so the gate is about to be closed."""
        while self._server_up.is_set() and not self._stopped:
            threading.Event().wait(0.001)

    def _resolve_unacknowledged(self, connection: http.client.HTTPSConnection, name: str) -> None:
        """Read the result of the write whose response was lost."""
        key = self.ledger.keys[name]
        if not key.unacknowledged:
            return
        status, answer = _send_request(connection, "GET", f"{_COLLECTION}/{name}")
        found = None if status == 404 else _get_value(answer)
        if found not in key.list_possible_values():
            self.ledger.violations.append(f"{name}: {key} came back as {found}")
        key.value, key.unacknowledged = found, []

    def _write_once(
        self, connection: http.client.HTTPSConnection, name: str, chance: float
    ) -> None:
        key = self.ledger.keys[name]
        value = key.written = key.written + 1
        if key.value is not None and chance < 0.25:
            key.unacknowledged = [None]
            status, answer = _send_request(connection, "DELETE", f"{_COLLECTION}/{name}")
            assert status == 200, answer
            self.ledger.deletes += 1
            key.value, key.unacknowledged = None, []
            return
        key.unacknowledged = [value]
        body = {"metadata": {"name": name, "labels": {"load": "yes"}}, "data": {"n": str(value)}}
        if key.value is None:
            status, answer = _send_request(connection, "POST", _COLLECTION, body)
            assert status == 201, answer
        else:
            status, answer = _send_request(connection, "PUT", f"{_COLLECTION}/{name}", body)
            assert status == 200, answer
        self.ledger.acknowledge(name, value, _get_version(answer))
        key.value, key.unacknowledged = value, []

    def _run_watcher(self) -> None:
        context = self.access.ssl_context()
        version = 0
        while self._wait_for_server():
            with contextlib.suppress(*_CONNECTION_ERRORS):
                if not version:
                    version, found = self.list_values()
                    self._record_relist(version, found)
                version = self._watch_from(context, version)

    def _record_relist(self, version: int, found: dict[str, int]) -> None:
        self.ledger.relists.append(version)
        self.ledger.events = {
            name: [WatchedEvent(version, "ADDED", value)] for name, value in found.items()
        }

    def _watch_from(self, context: ssl.SSLContext, version: int) -> int:
        """Watch from `version`; returns the last version seen, or 0 when it has expired."""
        with self._connect(context) as connection:
            query = f"watch=true&{_LABEL_SELECTOR}&resourceVersion={version}&timeoutSeconds=600"
            connection.request("GET", f"{_COLLECTION}?{query}")
            reply = connection.getresponse()
            if reply.status == 410:
                return 0
            assert reply.status == 200, reply.read()
            with contextlib.suppress(*_CONNECTION_ERRORS):
                while not self._stopped and (line := reply.readline()):
                    event = _parse_event(line)
                    if event is None:
                        break
                    if event["type"] == "ERROR":
                        assert event["object"]["code"] == 410, event
                        return 0
                    item = event["object"]
                    version = _get_version(item)
                    self.ledger.observe(
                        item["metadata"]["name"],
                        WatchedEvent(version, event["type"], _get_value(item)),
                    )
        return version

    @contextlib.contextmanager
    def _connect(self, context: ssl.SSLContext):
        connection = http.client.HTTPSConnection(
            self.access.host, self.access.port, timeout=10, context=context
        )
        with contextlib.closing(connection):
            yield connection


def _send_request(
    connection: http.client.HTTPSConnection, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"content-type": "application/json"})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def _parse_event(line: bytes) -> Any:
    """The event of a line; None when the server died within it."""
    return json.loads(line) if line.endswith(b"\n") else None


def _get_value(item: Any) -> int:
    return int(item["data"]["n"])


def _get_version(item: Any) -> int:
    return int(item["metadata"]["resourceVersion"])
