"""Threads that write to and watch a server that comes and goes."""

import contextlib
import http.client
import json
import random
import ssl
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.faults.ledger import Key, Ledger, Seen
from tests.harness.access import Access

_COLLECTION = "/api/v1/namespaces/default/configmaps"
_SELECTION = "labelSelector=load%3Dyes"
_BROKEN = (OSError, http.client.HTTPException)


@dataclass
class Load:
    """Writers and a watcher. They work while the gate is open, and wait while it is shut."""

    access: Access
    ledger: Ledger
    seed: int
    writers: int = 3
    keys: int = 20
    _open: threading.Event = field(default_factory=threading.Event)
    _over: bool = False
    _idle: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def begin(self) -> None:
        for number in range(self.writers):
            self._start(self._write, number)
        self._start(self._watch)

    def open_gate(self) -> None:
        """The server is there."""
        self._open.set()

    def shut_gate(self) -> None:
        """The server is gone. Returns when no writer has a request under way."""
        self._open.clear()
        for _ in range(self.writers):
            self._idle.acquire()

    def end(self) -> None:
        self._over = True
        self._open.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a thread of the load hangs"

    def listing(self) -> tuple[int, dict[str, int]]:
        """The version and the values of all objects of the load."""
        status, answer = self.access.ask("GET", f"{_COLLECTION}?{_SELECTION}")
        assert status == 200, answer
        return int(answer["metadata"]["resourceVersion"]), {
            item["metadata"]["name"]: _value(item) for item in answer["items"]
        }

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _write(self, number: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        names = [f"w{number}-{index}" for index in range(self.keys)]
        self.ledger.keys.update({name: Key() for name in names})
        context = self.access.ssl_context()
        while self._wait_for_server():
            with contextlib.suppress(*_BROKEN), self._connected(context) as connection:
                for name in names:
                    self._settle(connection, name)
                while self._open.is_set() and not self._over:
                    self._change(connection, chance.choice(names), chance.random())
            if not self._over:
                self._await_shut_gate()
                self._idle.release()

    def _wait_for_server(self) -> bool:
        self._open.wait()
        return not self._over

    def _await_shut_gate(self) -> None:
        """The connection broke, so the gate is about to be shut."""
        while self._open.is_set() and not self._over:
            threading.Event().wait(0.001)

    def _settle(self, connection: http.client.HTTPSConnection, name: str) -> None:
        """Look what became of the write whose answer never came."""
        key = self.ledger.keys[name]
        if not key.doubt:
            return
        status, answer = _ask(connection, "GET", f"{_COLLECTION}/{name}")
        found = None if status == 404 else _value(answer)
        if found not in key.possible():
            self.ledger.violations.append(f"{name}: {key} came back as {found}")
        key.value, key.doubt = found, []

    def _change(self, connection: http.client.HTTPSConnection, name: str, chance: float) -> None:
        key = self.ledger.keys[name]
        value = key.written = key.written + 1
        if key.value is not None and chance < 0.25:
            key.doubt = [None]
            status, answer = _ask(connection, "DELETE", f"{_COLLECTION}/{name}")
            assert status == 200, answer
            self.ledger.deletes += 1
            key.value, key.doubt = None, []
            return
        key.doubt = [value]
        body = {"metadata": {"name": name, "labels": {"load": "yes"}}, "data": {"n": str(value)}}
        if key.value is None:
            status, answer = _ask(connection, "POST", _COLLECTION, body)
            assert status == 201, answer
        else:
            status, answer = _ask(connection, "PUT", f"{_COLLECTION}/{name}", body)
            assert status == 200, answer
        self.ledger.acknowledge(name, value, _version(answer))
        key.value, key.doubt = value, []

    def _watch(self) -> None:
        context = self.access.ssl_context()
        version = 0
        while self._wait_for_server():
            with contextlib.suppress(*_BROKEN):
                if not version:
                    version, found = self.listing()
                    self._relist(version, found)
                version = self._follow(context, version)

    def _relist(self, version: int, found: dict[str, int]) -> None:
        self.ledger.relists.append(version)
        self.ledger.events = {
            name: [Seen(version, "ADDED", value)] for name, value in found.items()
        }

    def _follow(self, context: ssl.SSLContext, version: int) -> int:
        """Watch on from `version`; the last version seen, or 0 when it has expired."""
        with self._connected(context) as connection:
            query = f"watch=true&{_SELECTION}&resourceVersion={version}&timeoutSeconds=600"
            connection.request("GET", f"{_COLLECTION}?{query}")
            reply = connection.getresponse()
            if reply.status == 410:
                return 0
            assert reply.status == 200, reply.read()
            with contextlib.suppress(*_BROKEN):
                while not self._over and (line := reply.readline()):
                    event = _whole_event(line)
                    if event is None:
                        break
                    if event["type"] == "ERROR":
                        assert event["object"]["code"] == 410, event
                        return 0
                    item = event["object"]
                    version = _version(item)
                    self.ledger.observe(
                        item["metadata"]["name"], Seen(version, event["type"], _value(item))
                    )
        return version

    @contextlib.contextmanager
    def _connected(self, context: ssl.SSLContext):
        connection = http.client.HTTPSConnection(
            self.access.host, self.access.port, timeout=10, context=context
        )
        with contextlib.closing(connection):
            yield connection


def _ask(
    connection: http.client.HTTPSConnection, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"content-type": "application/json"})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def _whole_event(line: bytes) -> Any:
    """The event of a line; None when the server died in the middle of it."""
    return json.loads(line) if line.endswith(b"\n") else None


def _value(item: Any) -> int:
    return int(item["data"]["n"])


def _version(item: Any) -> int:
    return int(item["metadata"]["resourceVersion"])
