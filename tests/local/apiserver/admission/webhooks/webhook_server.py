"""A scripted webhook server: valid responses, hangs, and invalid responses.

It serves HTTPS in threads of its own, so that a server in any process can call it. The path selects
its behaviour.
"""

import contextlib
import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kilonova.kube.serving.certificates import CertificateAuthority

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A scripted HTTP response."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


Behaviour = Callable[[Json], Answer]
"""From the request of a review to an answer."""


def review(request: Json, **response: Any) -> Answer:
    """A valid AdmissionReview with these fields in its response."""
    return raw_review({"uid": request["uid"], "allowed": True, **response})


def raw_review(response: Json | None, **more: Any) -> Answer:
    """An AdmissionReview with any response."""
    body: Json = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **more}
    if response is not None:
        body["response"] = response
    return Answer(json.dumps(body).encode())


def patched(request: Json, *operations: Json) -> Answer:
    """Allowed, with a JSON patch."""
    patch = b64encode(json.dumps(list(operations)).encode()).decode()
    return review(request, patch=patch, patchType="JSONPatch")


@dataclass
class WebhookServer:
    """A running server. `asked` are the received requests, by path and in order."""

    url: str
    ca_bundle: str
    behaviours: dict[str, Behaviour]
    asked: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    ended: threading.Event = field(default_factory=threading.Event)

    def requests(self, path: str) -> list[Json]:
        """The requests received at a path."""
        return [request for asked, request in self.asked if asked == path]

    def hang(self, request: Json) -> Answer:
        """Send nothing until the server stops."""
        self.ended.wait(60)
        return review(request)


def webhook(server: WebhookServer, name: str, path: str, **more: Any) -> Json:
    """A webhook of a configuration that calls the server at `path` for all ConfigMaps."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["configmaps"],
    }
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": f"{server.url}{path}", "caBundle": server.ca_bundle},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **more,
    }


@contextlib.contextmanager
def serve_webhooks(
    folder: Path, behaviours: dict[str, Behaviour], names: tuple[str, ...] = ("127.0.0.1",)
) -> Generator[WebhookServer]:
    """A server from start to stop; its certificate is for `names`."""
    authority = CertificateAuthority.create("webhook", datetime.now(UTC))
    folder.mkdir(exist_ok=True)
    cert, key = folder / "tls.crt", folder / "tls.key"
    authority.issue_server(names, datetime.now(UTC)).write(cert, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    running = WebhookServer("", b64encode(authority.cert_pem).decode(), behaviours)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._reply()

        def do_GET(self) -> None:
            self._reply()

        def _reply(self) -> None:
            path = self.path.partition("?")[0]
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = json.loads(content)["request"] if content else {}
            running.asked.append((path, request))
            answer = running.behaviours[path](request)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the caller may have timed out
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    running.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield running
    finally:
        running.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def wait_until(condition: Callable[[], bool], within: float = 20.0) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not so after {within:g} s"
        time.sleep(0.02)
