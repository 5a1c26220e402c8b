"""Credentials from a command: the exec plug-ins of a kubeconfig."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.config.credentials import Credential, FetchedCredential, bearer_credential
from kilonova.kube.client.errors import ConfigError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential. `where` is its location in the kubeconfig."""

    where: str
    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster: JsonObject | None = None
    timeout: float = 60.0

    async def fetch(self) -> FetchedCredential:
        """Run the command, without a terminal: a command that prompts fails."""
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
            raise self._config_error(
                f"cannot be run: {error.strerror}", self.install_hint
            ) from error
        try:
            async with asyncio.timeout(self.timeout):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise self._config_error(f"did not exit within {self.timeout:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            stderr_text = complaint.decode(errors="replace").strip()[-500:]
            raise self._config_error(
                f"exited with {process.returncode}: {stderr_text}", self.install_hint
            )
        return self._parse_credential(output)

    def _parse_credential(self, output: bytes) -> FetchedCredential:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise self._config_error(f"did not print an ExecCredential: {error}") from error
        if answer.api_version != self.api_version:
            raise self._config_error(
                f"returned {answer.api_version!r} instead of {self.api_version!r}"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._config_error("returned neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._config_error(
                "returned a client certificate without its key, or a key without a certificate"
            )
        pair = (status.client_certificate_data.encode(), status.client_key_data.encode())
        credential = (
            bearer_credential(status.token, *pair) if status.token else Credential("", *pair)
        )
        expires = status.expiration_timestamp
        return FetchedCredential(credential, expires.timestamp() if expires else None)

    def _config_error(self, problem: str, fix: str = "") -> ConfigError:
        return ConfigError(self.where, f"the plug-in {Path(self.command).name} {problem}", fix)


class _ExecCredentialStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _ExecCredentialStatus | None = None
