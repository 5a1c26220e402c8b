"""Access of tests to an API server, embedded or Kubernetes."""

import contextlib
import http.client
import json
import ssl
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kilonova.kube.serving.certificates import KeyPair


@dataclass(frozen=True)
class ServerAccess:
    """URL, CA and credentials of an administrator.

    `token` is empty where the administrator has only a client certificate.
    """

    url: str
    ca_file: Path
    cert_file: Path
    key_file: Path
    kubeconfig: Path
    token: str = ""

    @property
    def host(self) -> str:
        return self.url.removeprefix("https://").rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ssl_context(self, *, with_client_certificate: bool = True) -> ssl.SSLContext:
        """Trusts only this server's CA, and presents the administrator's certificate."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if with_client_certificate:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request as the administrator, on its own connection: status and JSON."""
        connection = http.client.HTTPSConnection(
            self.host, self.port, timeout=30, context=self.ssl_context()
        )
        with contextlib.closing(connection):
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"content-type": "application/json"})
            reply = connection.getresponse()
            text = reply.read()
            is_json = "json" in reply.headers.get("content-type", "")
            return reply.status, json.loads(text) if is_json else text.decode()

    def is_ready(self) -> bool:
        """Whether `/readyz` succeeds."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    @classmethod
    def from_kubeconfig(cls, kubeconfig: Path, folder: Path, token: str = "") -> "ServerAccess":
        """Extract the current user's certificates from a kubeconfig into files in `folder`."""
        config: Any = yaml.safe_load(kubeconfig.read_text())
        context = _find_entry(config, "context", config["current-context"])
        cluster = _find_entry(config, "cluster", context["cluster"])
        user = _find_entry(config, "user", context["user"])
        folder.mkdir(exist_ok=True)
        files = {
            "ca.crt": cluster["certificate-authority-data"],
            "client.crt": user["client-certificate-data"],
            "client.key": user["client-key-data"],
        }
        for name, content in files.items():
            (folder / name).write_bytes(b64decode(content))
        ca, cert, key = (folder / name for name in files)
        return cls(cluster["server"], ca, cert, key, kubeconfig, token or user.get("token", ""))


def _find_entry(config: Any, section: str, name: str) -> Any:
    return next(entry[section] for entry in config[section + "s"] if entry["name"] == name)


def write_kubeconfig(path: Path, url: str, ca_pem: bytes, client: KeyPair | str) -> None:
    """A kubeconfig for one user with a client certificate or a token."""

    def encode_pem(pem: bytes) -> str:
        return b64encode(pem).decode()

    cluster = {"server": url, "certificate-authority-data": encode_pem(ca_pem)}
    if isinstance(client, str):
        user = {"token": client}
    else:
        user = {
            "client-certificate-data": encode_pem(client.cert_pem),
            "client-key-data": encode_pem(client.key_pem),
        }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))  # JSON is YAML
