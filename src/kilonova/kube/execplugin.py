"""Credentials from a command: the exec plug-ins of a kubeconfig."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.credentials import Credential, Fetched, bearer
from kilonova.kube.errors import ConfigError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential. `where` is its place in the kubeconfig."""

    where: str
    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster: JsonObject | None = None
    timeout: float = 60.0

    async def fetch(self) -> Fetched:
        """Run the command. It gets no terminal, so one that wants to ask will fail."""
        spec: JsonObject = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **dict(self.environment),
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._error(f"cannot be run: {error.strerror}", self.install_hint) from error
        try:
            async with asyncio.timeout(self.timeout):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise self._error(f"did not end within {self.timeout:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = complaint.decode(errors="replace").strip()[-500:]
            raise self._error(f"exited with {process.returncode}: {said}", self.install_hint)
        return self._read(output)

    def _read(self, output: bytes) -> Fetched:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise self._error(f"did not print an ExecCredential: {error}") from error
        if answer.api_version != self.api_version:
            raise self._error(f"answered in {answer.api_version!r}, not in {self.api_version!r}")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._error("gave neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("gave a client certificate without its key, or a key alone")
        pair = (status.client_certificate_data.encode(), status.client_key_data.encode())
        credential = bearer(status.token, *pair) if status.token else Credential("", *pair)
        expires = status.expiration_timestamp
        return Fetched(credential, expires.timestamp() if expires else None)

    def _error(self, problem: str, fix: str = "") -> ConfigError:
        return ConfigError(self.where, f"the plug-in {Path(self.command).name} {problem}", fix)


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _Status | None = None
