"""`kilonova status`: whether a cluster runs in a data directory, and its nodes and pods."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

import msgspec

from kilonova import __version__
from kilonova.api.times import parse_time
from kilonova.cli.up.object_counts import ClusterCounts, NodeCount, PodCount, count_objects
from kilonova.component.command.output.format_names import OutputFormat
from kilonova.component.command.output.formats import encode_as, pluralize
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.kube import KubeError, connect
from kilonova.local.data_directory import SHIM_DIRECTORY, DataDirectory

_TIMEOUT_SECONDS = 15.0
_LOG_TAIL_BYTES, _MAX_LOG_LINE = 4096, 400
"""Bytes read from the end of a log, and characters shown of its last line."""
_ORPHANED_PODS_HINT = "`kilonova up` adopts them, `kilonova down` stops them"


class LastStop(msgspec.Struct, frozen=True, rename="camel"):
    """How a cluster ended: stopped (`requested`), `failed`, or `killed`, which may be a crash."""

    reason: Literal["requested", "failed", "killed"]
    at: str | None = None
    """When it stopped; None if it was killed."""
    pid: int | None = None
    """The process that was killed."""
    message: str = ""
    """Why it failed, else the last line of its log."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The output of `-o json`: all keys are always present."""

    running: bool
    data: str
    version: str = __version__
    pid: int | None = None
    url: str | None = None
    kubeconfig: str | None = None
    started: str | None = None
    console: str | None = None
    components: dict[str, str] | None = None
    problems: dict[str, str] | None = None
    nodes: NodeCount | None = None
    pods: PodCount | None = None
    resource_version: int | None = None
    stopped: LastStop | None = None
    """How the last cluster ended, if none is running."""
    containers: int | None = None
    """Containers that still run on this machine, if no cluster is running."""


@dataclass(frozen=True, slots=True)
class StatusResult:
    """A status, and why it is incomplete, if so."""

    status: Status
    problem: str = ""


def find_status(data: Path) -> StatusResult:
    """Read the records in the data directory, then query the API of the running cluster."""
    directory = DataDirectory(data)
    running = directory.read_running_record() if directory.is_locked() else None
    if running is None:
        orphans = asyncio.run(_count_orphaned_containers(data))
        stopped = _read_last_stop(directory)
        return StatusResult(
            Status(running=False, data=str(data), stopped=stopped, containers=orphans)
        )
    counts, problem = asyncio.run(_query_counts(Path(running.kubeconfig)))
    return StatusResult(
        Status(
            running=True,
            data=str(data),
            pid=running.pid,
            url=running.url,
            kubeconfig=running.kubeconfig,
            started=running.started,
            console=running.console,
            components=running.components,
            problems=running.problems,
            nodes=counts.nodes if counts else None,
            pods=counts.pods if counts else None,
            resource_version=counts.resource_version if counts else None,
        ),
        problem,
    )


def _read_last_stop(directory: DataDirectory) -> LastStop | None:
    """How the last cluster ended; one that was killed has left its running record."""
    if directory.is_locked() or not directory.is_data_directory():
        return None
    stopped, killed = directory.read_stopped_record(), directory.read_running_record()
    if stopped is not None:
        return LastStop(stopped.reason, stopped.at, message=stopped.message)
    if killed is not None:
        return LastStop(
            "killed", pid=killed.pid, message=_read_last_log_line(directory.log, killed.started)
        )
    return None


def _read_last_log_line(log: Path, started: str) -> str:
    """The last line of a background process's log; empty if the log is older than the process."""
    try:
        with log.open("rb") as file:
            if log.stat().st_mtime < parse_time(started).timestamp():
                return ""
            file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return strip_control_characters(lines[-1][:_MAX_LOG_LINE]) if lines else ""


async def _count_orphaned_containers(data: Path) -> int:
    from kilonova.local.processnode.cri.client import ShimRuntime

    try:
        return await ShimRuntime(data / SHIM_DIRECTORY).count_running()
    except OSError:  # belongs to another user
        return 0


async def _query_counts(kubeconfig: Path) -> tuple[ClusterCounts | None, str]:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS), connect(kubeconfig) as client:
            return await count_objects(client), ""
    except KubeError as error:
        return None, f"the API does not answer: {error}"
    except TimeoutError:
        return None, f"the API does not answer within {_TIMEOUT_SECONDS:.0f} s"


def format_status(status: Status, output_format: OutputFormat) -> str:
    """The status in an output format."""
    match output_format:
        case "json" | "yaml":
            return encode_as(status, output_format)
        case "table":
            rows = _table_rows(status)
            width = max(len(name) for name, _ in rows)
            return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        case _:
            assert_never(output_format)


def _table_rows(status: Status) -> list[tuple[str, str]]:
    if not status.running:
        rows = [
            ("cluster", f"not running{_format_last_stop(status.stopped)}"),
            ("data", status.data),
        ]
        if status.stopped is not None and status.stopped.reason == "killed":
            rows.append(("log", status.stopped.message or "empty"))
        if status.containers:
            containers = pluralize(status.containers, "container")
            rows.append(("pods", f"{containers} still running here: {_ORPHANED_PODS_HINT}"))
        return rows
    nodes, pods = status.nodes, status.pods
    rows = [
        ("cluster", f"running since {status.started}, process {status.pid}"),
        ("console", status.console or "off"),
        ("API", str(status.url)),
        ("kubeconfig", str(status.kubeconfig)),
        ("data", status.data),
    ]
    if nodes is not None:
        rows.append(("nodes", f"{nodes.total} ({nodes.ready} ready)"))
    if pods is not None:
        rows.append(("pods", f"{pods.total}{_format_phases(pods)}"))
    if status.components:
        rows.append(
            (
                "components",
                ", ".join(f"{name} {state}" for name, state in status.components.items()),
            )
        )
    rows += [("degraded", f"{name} {problem}") for name, problem in (status.problems or {}).items()]
    if status.resource_version is not None:
        rows.append(("store", f"at resource version {status.resource_version}"))
    return rows


def _format_last_stop(stop: LastStop | None) -> str:
    if stop is None:
        return ""
    match stop.reason:
        case "requested":
            return f": it was stopped at {stop.at}"
        case "failed":
            return f": it failed at {stop.at}: {strip_control_characters(stop.message)}"
        case "killed":
            return f": process {stop.pid} was killed or crashed"
        case _:
            assert_never(stop.reason)


def _format_phases(pods: PodCount) -> str:
    phases = (
        ("running", pods.running),
        ("pending", pods.pending),
        ("succeeded", pods.succeeded),
        ("failed", pods.failed),
        ("unknown", pods.unknown),
    )
    present = [f"{count} {name}" for name, count in phases if count]
    return f" ({', '.join(present)})" if present else ""
