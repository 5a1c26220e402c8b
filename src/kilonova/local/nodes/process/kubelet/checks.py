"""Asking a container how it is, and running its hooks: commands, pages, connections, gRPC."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.local.nodes.process.kubelet.expansion import expand
from kilonova.local.nodes.process.kubelet.grpchealth import CallRefused, health_status
from kilonova.local.nodes.process.kubelet.pages import PageFailed, errno_text, fetch_page
from kilonova.local.nodes.process.kubelet.pods import (
    Container,
    GrpcAction,
    Hook,
    HttpGetAction,
    Probe,
    TcpSocketAction,
)
from kilonova.local.nodes.process.runtime import Runtime, StartFailed

_MOST_OUTPUT = 10 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found, and in which words."""

    good: bool
    text: str = ""
    warning: bool = False


class CheckError(Exception):
    """The check itself could not be made: it says nothing about the container."""


class HookFailed(Exception):
    """A hook did not succeed."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running container."""

    container: Container
    run: str
    address: str


class Checks:
    """Makes checks, and runs hooks, in containers of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def probe(self, target: Target, probe: Probe) -> Outcome:
        """One probe, within its time; `CheckError` if it could not be made."""
        try:
            return await self._outcome(target, probe)
        except (ValueError, OverflowError) as error:
            # Of hosts, ports and headers that cannot be: the API takes more than can be sent.
            raise CheckError(str(error)) from error

    async def _outcome(self, target: Target, probe: Probe) -> Outcome:
        seconds = probe.timeout_seconds
        if probe.exec is not None:
            return await self._probe_command(target, probe.exec.command, seconds)
        if probe.http_get is not None:
            return await _probe_page(target, probe.http_get, seconds)
        if probe.tcp_socket is not None:
            return await _probe_connection(target, probe.tcp_socket, seconds)
        if probe.grpc is not None:
            return await _probe_health(target, probe.grpc, seconds)
        raise CheckError(f"missing probe handler for {target.container.name}")

    async def run_hook(self, target: Target, hook: Hook) -> None:
        """Run a hook to its end; `HookFailed` if it does not succeed."""
        if hook.exec is not None:
            try:
                code, _ = await self._run(target.run, hook.exec.command)
            except StartFailed as error:
                raise HookFailed(error.message) from error
            if code:
                raise HookFailed(f"exit code {code}")
        elif hook.http_get is not None:
            try:
                await _fetch(target, hook.http_get, "kube-lifecycle/1.36")
            except (PageFailed, TimeoutError, ValueError, OverflowError, CheckError) as error:
                raise HookFailed(str(error)) from error
        elif hook.sleep is not None:
            await asyncio.sleep(hook.sleep.seconds)
        else:
            raise HookFailed("invalid handler")

    async def _probe_command(
        self, target: Target, command: Sequence[str], seconds: float
    ) -> Outcome:
        static = {each.name: each.value for each in target.container.env}
        words = [expand(word, static) for word in command]
        try:
            async with asyncio.timeout(seconds):
                code, output = await self._run(target.run, words)
        except TimeoutError:
            shown = " ".join(words)
            return Outcome(False, f'command timed out: "{shown}" timed out after {seconds:g}s')
        except Exception as error:
            # The command cannot be executed, or the runtime has troubles of its own.
            raise CheckError(str(error)) from error
        return Outcome(code == 0, output.decode(errors="replace"))

    async def _run(self, run: str, command: Sequence[str]) -> tuple[int, bytes]:
        """Exit code and the beginning of the output; the command ends with the caller."""
        process = await self._runtime.execute(run, command, stdin=False, tty=False)
        output = bytearray()
        try:
            async for _, data in process.output():
                output += data[: _MOST_OUTPUT - len(output)]
            return await process.wait(), bytes(output)
        finally:
            await process.detach()


async def _probe_page(target: Target, action: HttpGetAction, seconds: float) -> Outcome:
    url = _url(target, action)
    try:
        async with asyncio.timeout(seconds):
            status, body = await _fetch(target, action, "kube-probe/1.36")
    except TimeoutError:
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Outcome(False, f'Get "{url}": {late}')
    except PageFailed as error:
        return Outcome(False, f'Get "{url}": {error.dialled}')
    if 200 <= status < 300:
        return Outcome(True)
    if 300 <= status < 400:
        return Outcome(True, f"Probe terminated redirects, Response body: {body}", warning=True)
    return Outcome(False, f"HTTP probe failed with statuscode: {status}")


async def _fetch(target: Target, action: HttpGetAction, agent: str) -> tuple[int, str]:
    headers = {"User-Agent": agent, "Accept": "*/*"}
    headers |= {each.name: each.value for each in action.http_headers}
    headers = {name: value for name, value in headers.items() if name != "Accept" or value}
    return await fetch_page(_url(target, action), headers, _MOST_OUTPUT)


async def _probe_connection(target: Target, action: TcpSocketAction, seconds: float) -> Outcome:
    host, port = action.host or target.address, _port(target, action.port)
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Outcome(False, f"dial tcp {host}:{port}: i/o timeout")
    except OSError as error:
        return Outcome(False, f"dial tcp {host}:{port}: connect: {errno_text(error)}")
    writer.close()
    return Outcome(True)


async def _probe_health(target: Target, action: GrpcAction, seconds: float) -> Outcome:
    place = f"{target.address}:{action.port}"
    connected = False
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(target.address, action.port)
            connected = True
            try:
                status = await health_status(reader, writer, place, action.service)
            finally:
                writer.close()
    except TimeoutError:
        if connected:
            return Outcome(False, f"timeout: health rpc did not complete within {seconds:g}s")
        return Outcome(False, _no_service(place, seconds, "context deadline exceeded"))
    except CallRefused as error:
        return Outcome(False, f"error: health rpc probe failed: {error}")
    except OSError as error:
        return Outcome(False, _no_service(place, seconds, errno_text(error)))
    if status != "SERVING":
        return Outcome(False, f'service unhealthy (responded with "{status}")')
    return Outcome(True, "service healthy")


def _no_service(place: str, seconds: float, why: str) -> str:
    return f'timeout: failed to connect service "{place}" within {seconds:g}s: {why}'


def _url(target: Target, action: HttpGetAction) -> str:
    host = action.host or target.address
    shown = f"[{host}]" if ":" in host else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return f"{action.scheme.lower()}://{shown}:{_port(target, action.port)}{path}"


def _port(target: Target, port: int | str) -> int:
    if isinstance(port, int):
        return port
    named = (each.container_port for each in target.container.ports if each.name == port)
    found = next(named, None) or (int(port) if port.isdecimal() else None)
    if found is None:
        raise CheckError(f'container "{target.container.name}" has no port named "{port}"')
    return found
