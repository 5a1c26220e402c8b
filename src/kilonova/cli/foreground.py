"""`kilonova up`: a cluster in this process, until it is asked to stop.

Everything happens in one event loop. The first SIGINT or SIGTERM stops the cluster in good
order, also while it starts, and before it the processes of its pods; a second one ends this
process on the spot, which loses nothing that was acknowledged, and leaves those that still run
for the next start. SIGUSR1 stops the cluster and leaves all of them.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kilonova.cli.audience import Audience, ending_text
from kilonova.cli.census import count_nodes
from kilonova.cli.failure import CommandFailed, WrongUsage, unusable_folder
from kilonova.cli.options import FLEETS, UpOptions
from kilonova.cli.progress import Steps
from kilonova.cli.welcome import Welcome
from kilonova.kube import KubeError, logging

if TYPE_CHECKING:  # they are imported when a cluster starts
    from kilonova.cli.embeddedconsole import EmbeddedConsole
    from kilonova.cli.rooms import Rooms
    from kilonova.local.cluster import Cluster
    from kilonova.local.folder import Folder

_API, _NODES, _DEMO = "API", "nodes", "demo"
_COUNT_EVERY = 0.1

_log = logging.get_logger(__name__)


def run_cluster(options: UpOptions, audience: Audience) -> None:
    """Run a cluster; return when it was asked to stop, `CommandFailed` when it had to."""
    import uvloop

    begun = time.monotonic()
    gc.disable()  # what a start makes stays
    names = [_API, _NODES, *([_DEMO] if _has_demo(options) else [])]
    steps = Steps(names, audience.progress)
    try:
        steps.going(_API)
        _configure_logging()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(options, audience, steps, begun))
    except BaseException as error:
        audience.failed(error)
        raise


def _has_demo(options: UpOptions) -> bool:
    """It is made for the fleets that have names, and nothing of it works without these rooms."""
    return options.demo and options.nodes in FLEETS and options.operator and options.scheduler


def _configure_logging() -> None:
    # A person at a terminal has asked for a cluster, not for its diary.
    quiet = sys.stderr.isatty() and not os.environ.get(logging.LEVEL_VARIABLE)
    try:
        logging.configure("warning" if quiet else None)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


async def _run(options: UpOptions, audience: Audience, steps: Steps, begun: float) -> None:
    from kilonova.local.controllers import UnknownController
    from kilonova.local.folder import FolderInUse
    from kilonova.local.listener import PortInUse
    from kilonova.local.nodes import FleetError
    from kilonova.local.storage import StorageBroken

    asked = _asked_to_stop()
    try:
        cluster, rooms, console = _built(options)
        cluster.reserve()
        if console is not None:
            console.reserve(cluster)
        if not await _outruns(cluster.start(), asked):
            audience.stopping()
            return
    except UnknownController as error:
        raise WrongUsage(f"--controllers {options.controllers}: {error}") from error
    except (FolderInUse, PortInUse, FleetError, StorageBroken) as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise unusable_folder(error) from error
    _relax_collector()
    assert cluster.broken is not None
    assert cluster.folder is not None
    folder = cluster.folder
    link = console.link if console is not None else None
    where = (cluster.url, str(folder.kubeconfig), str(options.data))
    welcome = partial(Welcome, *where, console=link, simulated=options.nodes is not None)

    async def set_up() -> None:
        def tell(states: Mapping[str, str], problems: Mapping[str, str]) -> None:
            folder.announce_rooms(states, problems, link)

        await _settle(cluster, rooms.open(tell), steps)
        demo = _has_demo(options) and await _demonstrate(cluster, options, steps)
        nodes = await count_nodes(cluster.client("kilonova"))
        audience.ready(welcome(time.monotonic() - begun, nodes=nodes, demo=demo))

    try:
        steps.done(_API, cluster.url)
        audience.answers(welcome(time.monotonic() - begun))
        if await _outruns(set_up(), asked, cluster.broken):
            await asyncio.wait({asked, cluster.broken}, return_when=asyncio.FIRST_COMPLETED)
        audience.stopping()
        folder.will_stop("asked")
        if cluster.broken.done():
            folder.will_stop("failed", str(cluster.broken.result()))
        if asked.done() and not asked.result():
            await cluster.stop_pods(_progress(folder, audience))
    except BaseException as error:
        folder.will_stop("failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        await cluster.stop()
    if cluster.broken.done():
        raise CommandFailed(str(cluster.broken.result()))


def _built(options: UpOptions) -> "tuple[Cluster, Rooms, EmbeddedConsole | None]":
    """The cluster, what is in it, and its web page."""
    from kilonova.cli.residents import Residents
    from kilonova.cli.rooms import Rooms
    from kilonova.local.cluster import Settings
    from kilonova.local.nodes import NO_NODES, fleet_called
    from kilonova.local.storage import Durability

    fleet = NO_NODES if options.nodes is None else fleet_called(options.nodes)
    settings = Settings(
        data=options.data,
        host=options.host,
        port=options.port,
        durability=Durability[options.durability.upper()],
        fleet=fleet,
        controllers=options.controllers,
        process_node=options.process_node,
        allowed_host_paths=options.allowed_host_paths,
    )
    console = None
    if options.console:
        from kilonova.cli.embeddedconsole import EmbeddedConsole

        console = EmbeddedConsole(options)
    rooms = Rooms()
    residents = Residents(options.operator, options.scheduler, console and console.parts)
    cluster = residents.cluster(settings, built=rooms.add_parts, report=rooms.report)
    rooms.add("api", _at_once)
    if options.controllers:
        rooms.add("controllers", _at_once)
    if fleet.nodes and options.controllers:
        rooms.add("nodes", cluster.wait_fleet)
    if options.process_node and options.controllers:
        rooms.add("processNode", cluster.wait_process_node)
    return cluster, rooms, console


async def _at_once() -> None:
    """What there is nothing to wait for."""


async def _settle(cluster: "Cluster", opening: Coroutine[Any, Any, None], steps: Steps) -> None:
    """Wait until all rooms are open, and count the nodes meanwhile."""
    task = asyncio.ensure_future(opening)
    try:
        while not task.done():
            done, total = cluster.registered
            steps.going(_NODES, f"{done:,} of {total:,}" if total else "")
            await asyncio.wait({task}, timeout=_COUNT_EVERY)
        task.result()
    finally:
        task.cancel()
    _, total = cluster.registered
    steps.done(_NODES, f"{total:,}")


async def _demonstrate(cluster: "Cluster", options: UpOptions, steps: Steps) -> bool:
    """Set up the demo, if it never was; tells whether it is there."""
    from kilonova.cli.demonstration import is_demo_there, set_up_demo

    steps.going(_DEMO)
    client = cluster.client("kilonova-demo")
    try:
        await set_up_demo(client, options.nodes or "")
        there = await is_demo_there(client)
    except KubeError as error:  # a webhook or a policy of theirs: it is their cluster
        _log.warning("the demo was not set up", error=str(error))
        return False
    steps.done(_DEMO)
    return there


def _progress(folder: "Folder", audience: Audience) -> Callable[[int, float], None]:
    """Say how many pods still end: here, and to whoever waits in `kilonova down`."""

    def tell(count: int, seconds: float) -> None:
        folder.announce_ending(count, seconds)
        audience.ending_pods(ending_text(count, seconds))

    return tell


def _asked_to_stop() -> asyncio.Future[bool]:
    """Done at the first signal, with whether pods are to be left; the second is the system's."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[bool] = loop.create_future()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def ask(keep_pods: bool) -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        asked.set_result(keep_pods)

    for number in numbers:
        loop.add_signal_handler(number, ask, number == signal.SIGUSR1)
    return asked


async def _outruns(work: Coroutine[Any, Any, None], *ends: asyncio.Future[Any]) -> bool:
    """Whether `work` is done before any of `ends`; else it is cancelled."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return False
    task.result()
    return True


def _relax_collector() -> None:
    """Look for circular garbage rarely: what is stored lives long, and there is much of it.

    With 15,000 pods a third of the server's time would go into looking at them again and again.
    What the start left of it, some thousand objects, is kept: to find them takes longer than
    anything else that a start does.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
