"""Runs single probes and hooks in containers: exec, HTTP, TCP, gRPC."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.local.processnode.cri.api import ContainerStartError, Runtime
from kilonova.local.processnode.kubelet.environment.expansion import expand_references
from kilonova.local.processnode.kubelet.objects import (
    Container,
    GrpcAction,
    HttpGetAction,
    LifecycleHandler,
    Probe,
    TcpSocketAction,
)
from kilonova.local.processnode.kubelet.probes.grpc_health import GrpcCallError, check_health
from kilonova.local.processnode.kubelet.probes.http_get import (
    HttpGetError,
    describe_errno,
    http_get,
)

_MAX_OUTPUT = 10 * 1024


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe and its message."""

    succeeded: bool
    text: str = ""
    warning: bool = False


class ProbeError(Exception):
    """The probe could not be run: the container's health is unknown."""


class HookError(Exception):
    """A hook failed."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A running container."""

    container: Container
    run: str
    address: str


class Prober:
    """Runs probes and hooks in containers of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def probe_container(self, target: ProbeTarget, probe: Probe) -> ProbeResult:
        """Run one probe within its timeout; `ProbeError` if it could not be run."""
        try:
            return await self._run_probe(target, probe)
        except (ValueError, OverflowError) as error:
            # Invalid hosts, ports or headers: the API accepts values that cannot be sent.
            raise ProbeError(str(error)) from error

    async def _run_probe(self, target: ProbeTarget, probe: Probe) -> ProbeResult:
        seconds = probe.timeout_seconds
        if probe.exec is not None:
            return await self._probe_exec(target, probe.exec.command, seconds)
        if probe.http_get is not None:
            return await _probe_http(target, probe.http_get, seconds)
        if probe.tcp_socket is not None:
            return await _probe_tcp(target, probe.tcp_socket, seconds)
        if probe.grpc is not None:
            return await _probe_grpc(target, probe.grpc, seconds)
        raise ProbeError(f"missing probe handler for {target.container.name}")

    async def run_hook(self, target: ProbeTarget, hook: LifecycleHandler) -> None:
        """Run a hook to its end; `HookError` if it fails."""
        if hook.exec is not None:
            try:
                code, _ = await self._execute(target.run, hook.exec.command)
            except ContainerStartError as error:
                raise HookError(error.message) from error
            if code:
                raise HookError(f"exit code {code}")
        elif hook.http_get is not None:
            try:
                await _http_get(target, hook.http_get, "kube-lifecycle/1.36")
            except (HttpGetError, TimeoutError, ValueError, OverflowError, ProbeError) as error:
                raise HookError(str(error)) from error
        elif hook.sleep is not None:
            await asyncio.sleep(hook.sleep.seconds)
        else:
            raise HookError("invalid handler")

    async def _probe_exec(
        self, target: ProbeTarget, command: Sequence[str], seconds: float
    ) -> ProbeResult:
        static = {each.name: each.value for each in target.container.env}
        arguments = [expand_references(word, static) for word in command]
        try:
            async with asyncio.timeout(seconds):
                code, output = await self._execute(target.run, arguments)
        except TimeoutError:
            shown = " ".join(arguments)
            return ProbeResult(False, f'command timed out: "{shown}" timed out after {seconds:g}s')
        except Exception as error:
            # The command cannot be executed, or the runtime failed.
            raise ProbeError(str(error)) from error
        return ProbeResult(code == 0, output.decode(errors="replace"))

    async def _execute(self, run: str, command: Sequence[str]) -> tuple[int, bytes]:
        """Exit code and the beginning of the output; the command is killed when the caller is
        cancelled.
        """
        process = await self._runtime.execute(run, command, stdin=False, tty=False)
        output = bytearray()
        try:
            async for _, data in process.output():
                output += data[: _MAX_OUTPUT - len(output)]
            return await process.wait(), bytes(output)
        finally:
            await process.detach()


async def _probe_http(target: ProbeTarget, action: HttpGetAction, seconds: float) -> ProbeResult:
    url = _build_url(target, action)
    try:
        async with asyncio.timeout(seconds):
            status, body = await _http_get(target, action, "kube-probe/1.36")
    except TimeoutError:
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return ProbeResult(False, f'Get "{url}": {late}')
    except HttpGetError as error:
        return ProbeResult(False, f'Get "{url}": {error.probe_message}')
    if 200 <= status < 300:
        return ProbeResult(True)
    if 300 <= status < 400:
        return ProbeResult(True, f"Probe terminated redirects, Response body: {body}", warning=True)
    return ProbeResult(False, f"HTTP probe failed with statuscode: {status}")


async def _http_get(target: ProbeTarget, action: HttpGetAction, agent: str) -> tuple[int, str]:
    headers = {"User-Agent": agent, "Accept": "*/*"}
    headers |= {each.name: each.value for each in action.http_headers}
    headers = {name: value for name, value in headers.items() if name != "Accept" or value}
    return await http_get(_build_url(target, action), headers, _MAX_OUTPUT)


async def _probe_tcp(target: ProbeTarget, action: TcpSocketAction, seconds: float) -> ProbeResult:
    host, port = action.host or target.address, _resolve_port(target, action.port)
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return ProbeResult(False, f"dial tcp {host}:{port}: i/o timeout")
    except OSError as error:
        return ProbeResult(False, f"dial tcp {host}:{port}: connect: {describe_errno(error)}")
    writer.close()
    return ProbeResult(True)


async def _probe_grpc(target: ProbeTarget, action: GrpcAction, seconds: float) -> ProbeResult:
    address = f"{target.address}:{action.port}"
    connected = False
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(target.address, action.port)
            connected = True
            try:
                status = await check_health(reader, writer, address, action.service)
            finally:
                writer.close()
    except TimeoutError:
        if connected:
            return ProbeResult(False, f"timeout: health rpc did not complete within {seconds:g}s")
        return ProbeResult(
            False, _connect_timeout_message(address, seconds, "context deadline exceeded")
        )
    except GrpcCallError as error:
        return ProbeResult(False, f"error: health rpc probe failed: {error}")
    except OSError as error:
        return ProbeResult(False, _connect_timeout_message(address, seconds, describe_errno(error)))
    if status != "SERVING":
        return ProbeResult(False, f'service unhealthy (responded with "{status}")')
    return ProbeResult(True, "service healthy")


def _connect_timeout_message(address: str, seconds: float, why: str) -> str:
    return f'timeout: failed to connect service "{address}" within {seconds:g}s: {why}'


def _build_url(target: ProbeTarget, action: HttpGetAction) -> str:
    host = action.host or target.address
    shown = f"[{host}]" if ":" in host else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return f"{action.scheme.lower()}://{shown}:{_resolve_port(target, action.port)}{path}"


def _resolve_port(target: ProbeTarget, port: int | str) -> int:
    if isinstance(port, int):
        return port
    named = (each.container_port for each in target.container.ports if each.name == port)
    found = next(named, None) or (int(port) if port.isdecimal() else None)
    if found is None:
        raise ProbeError(f'container "{target.container.name}" has no port named "{port}"')
    return found
