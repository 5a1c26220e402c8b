"""`kilonova status`: whether a cluster runs on a data folder, and what it has."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

import msgspec

from kilonova import __version__
from kilonova.api.times import parse_time
from kilonova.cli.census import Census, NodeCount, PodCount, take_census
from kilonova.cli.screen import tamed
from kilonova.cli.tables import Form, counted, in_form
from kilonova.kube import KubeError, connect
from kilonova.local.folder import Folder

_PATIENCE = 15.0
_TAIL, _LONGEST = 4096, 400
"""Bytes of a log in which its last line is looked for, and characters of it that are told."""
_UNTIL = "`kilonova up` adopts them, `kilonova down` ends them"


class End(msgspec.Struct, frozen=True, rename="camel"):
    """How a cluster ended: `asked` to stop, `failed`, or `killed`, which may be a crash."""

    reason: Literal["asked", "failed", "killed"]
    at: str | None = None
    """When it stopped; nobody knows of one that was killed."""
    pid: int | None = None
    """The process that was killed."""
    message: str = ""
    """Why it failed, else what it wrote last."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """What `-o json` prints: every key always there, null where there is nothing to say."""

    running: bool
    data: str
    version: str = __version__
    pid: int | None = None
    url: str | None = None
    kubeconfig: str | None = None
    started: str | None = None
    console: str | None = None
    rooms: dict[str, str] | None = None
    problems: dict[str, str] | None = None
    nodes: NodeCount | None = None
    pods: PodCount | None = None
    resource_version: int | None = None
    stopped: End | None = None
    """How the last one ended, where none runs."""
    containers: int | None = None
    """Containers of pods that still run on this machine, where no cluster does."""


@dataclass(frozen=True, slots=True)
class Findings:
    """A status, and why it is incomplete if it is."""

    status: Status
    problem: str = ""


def find_status(data: Path) -> Findings:
    """Look at the folder, then ask the API that is said to run on it."""
    folder = Folder(data)
    running = folder.running() if folder.is_taken() else None
    if running is None:
        left = asyncio.run(_left_running(data))
        return Findings(
            Status(running=False, data=str(data), stopped=_end(folder), containers=left)
        )
    census, problem = asyncio.run(_ask(Path(running.kubeconfig)))
    return Findings(
        Status(
            running=True,
            data=str(data),
            pid=running.pid,
            url=running.url,
            kubeconfig=running.kubeconfig,
            started=running.started,
            console=running.console,
            rooms=running.rooms,
            problems=running.problems,
            nodes=census.nodes if census else None,
            pods=census.pods if census else None,
            resource_version=census.resource_version if census else None,
        ),
        problem,
    )


def _end(folder: Folder) -> End | None:
    """How the last cluster on a folder ended; one that could not say so has left its word."""
    if folder.is_taken() or not folder.is_ours():
        return None
    stopped, killed = folder.stopped(), folder.running()
    if stopped is not None:
        return End(stopped.reason, stopped.at, message=stopped.message)
    if killed is not None:
        return End("killed", pid=killed.pid, message=_last_line(folder.log, killed.started))
    return None


def _last_line(log: Path, started: str) -> str:
    """What a process in the background wrote last; one at a terminal has no log of its own."""
    try:
        with log.open("rb") as file:
            if log.stat().st_mtime < parse_time(started).timestamp():
                return ""
            file.seek(max(0, log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return tamed(lines[-1][:_LONGEST]) if lines else ""


async def _left_running(data: Path) -> int:
    from kilonova.local.nodes.process.keeper.client import KeeperRuntime

    try:
        return await KeeperRuntime(data / "keeper").running()
    except OSError:  # of another user
        return 0


async def _ask(kubeconfig: Path) -> tuple[Census | None, str]:
    try:
        async with asyncio.timeout(_PATIENCE), connect(kubeconfig) as client:
            return await take_census(client), ""
    except KubeError as error:
        return None, f"the API does not answer: {error}"
    except TimeoutError:
        return None, f"the API does not answer within {_PATIENCE:.0f} s"


def written(status: Status, form: Form) -> str:
    """The status in the form that was asked for."""
    match form:
        case "json" | "yaml":
            return in_form(status, form)
        case "table":
            rows = _rows(status)
            width = max(len(name) for name, _ in rows)
            return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        case _:
            assert_never(form)


def _rows(status: Status) -> list[tuple[str, str]]:
    if not status.running:
        rows = [("cluster", f"not running{_ended(status.stopped)}"), ("data", status.data)]
        if status.stopped is not None and status.stopped.reason == "killed":
            rows.append(("log", status.stopped.message or "it left no last line"))
        if status.containers:
            containers = counted(status.containers, "container")
            rows.append(("pods", f"{containers} still running here: {_UNTIL}"))
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
        rows.append(("pods", f"{pods.total}{_phases(pods)}"))
    if status.rooms:
        rows.append(("rooms", ", ".join(f"{name} {state}" for name, state in status.rooms.items())))
    rows += [("degraded", f"{name} {what}") for name, what in (status.problems or {}).items()]
    if status.resource_version is not None:
        rows.append(("store", f"at resource version {status.resource_version}"))
    return rows


def _ended(end: End | None) -> str:
    if end is None:
        return ""
    match end.reason:
        case "asked":
            return f": it was stopped at {end.at}"
        case "failed":
            return f": it failed at {end.at}: {tamed(end.message)}"
        case "killed":
            return f": process {end.pid} was killed or crashed"
        case _:
            assert_never(end.reason)


def _phases(pods: PodCount) -> str:
    named = (
        ("running", pods.running),
        ("pending", pods.pending),
        ("succeeded", pods.succeeded),
        ("failed", pods.failed),
        ("unknown", pods.unknown),
    )
    present = [f"{count} {name}" for name, count in named if count]
    return f" ({', '.join(present)})" if present else ""
