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
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from kilonova.cli.audience import Audience, ending_text
from kilonova.cli.census import count_nodes
from kilonova.cli.failure import CommandFailed
from kilonova.cli.options import UpOptions
from kilonova.cli.welcome import Welcome
from kilonova.kube import logging

if TYPE_CHECKING:  # it is imported when a cluster starts
    from kilonova.local.folder import Folder


def run_cluster(options: UpOptions, audience: Audience) -> None:
    """Run a cluster; return when it was asked to stop, `CommandFailed` when it had to."""
    import uvloop

    begun = time.monotonic()
    gc.disable()  # what a start makes stays
    audience.starting()
    try:
        _configure_logging()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(options, audience, begun))
    except BaseException as error:
        audience.failed(error)
        raise


def _configure_logging() -> None:
    # A person at a terminal has asked for a cluster, not for its diary.
    quiet = sys.stderr.isatty() and not os.environ.get(logging.LEVEL_VARIABLE)
    try:
        logging.configure("warning" if quiet else None)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


async def _run(options: UpOptions, audience: Audience, begun: float) -> None:
    from kilonova.cli.residents import Residents
    from kilonova.local.cluster import Settings
    from kilonova.local.controllers import UnknownController
    from kilonova.local.folder import FolderInUse
    from kilonova.local.listener import PortInUse
    from kilonova.local.nodes import Fleet, FleetError, read_fleet, small_fleet
    from kilonova.local.storage import Durability, StorageBroken

    asked = _asked_to_stop()
    try:
        fleet = small_fleet() if options.demo else Fleet()
        if options.nodes is not None:
            fleet = read_fleet(options.nodes)
        residents = Residents(operator=options.operator, scheduler=options.scheduler)
        cluster = residents.cluster(
            Settings(
                data=options.data,
                host=options.host,
                port=options.port,
                durability=Durability[options.durability.upper()],
                fleet=fleet,
                controllers=options.controllers,
                process_node=options.process_node,
                allowed_host_paths=options.allowed_host_paths,
            ),
        )
        if not await _outruns(cluster.start(), asked):
            audience.stopping()
            return
    except (FolderInUse, PortInUse, FleetError, StorageBroken, UnknownController) as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise CommandFailed(f"{error.filename}: {error.strerror}") from error
    _relax_collector()
    assert cluster.broken is not None
    assert cluster.folder is not None
    kubeconfig = str(cluster.folder.kubeconfig)

    async def welcome(*, settled: bool) -> Welcome:
        nodes = await count_nodes(cluster.client("kilonova")) if settled else None
        seconds = time.monotonic() - begun
        return Welcome(cluster.url, kubeconfig, str(options.data), seconds, nodes)

    try:
        audience.answers(await welcome(settled=False))
        if await _outruns(cluster.wait_settled(), asked, cluster.broken):
            audience.ready(await welcome(settled=True))
            await asyncio.wait({asked, cluster.broken}, return_when=asyncio.FIRST_COMPLETED)
        audience.stopping()
        if asked.done() and not asked.result():
            await cluster.stop_pods(_progress(cluster.folder, audience))
    finally:
        await cluster.stop()
    if cluster.broken.done():
        raise CommandFailed(str(cluster.broken.result()))


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
