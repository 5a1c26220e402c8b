"""`kilonova status`: whether a cluster runs on a data folder, and what it has."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import msgspec

from kilonova import __version__
from kilonova.cli.census import Census, NodeCount, PodCount, take_census
from kilonova.cli.tables import Form, in_form
from kilonova.kube import KubeError, connect
from kilonova.local.folder import Folder

_PATIENCE = 15.0


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
    nodes: NodeCount | None = None
    pods: PodCount | None = None
    resource_version: int | None = None


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
        return Findings(Status(running=False, data=str(data)))
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
            nodes=census.nodes if census else None,
            pods=census.pods if census else None,
            resource_version=census.resource_version if census else None,
        ),
        problem,
    )


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
        return [("cluster", "not running"), ("data", status.data)]
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
    if status.resource_version is not None:
        rows.append(("store", f"at resource version {status.resource_version}"))
    return rows


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
