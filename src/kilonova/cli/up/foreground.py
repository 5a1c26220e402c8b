"""`kilonova up`: runs a cluster in this process until it is stopped.

Everything runs in one event loop. The first SIGINT or SIGTERM stops the processes of pods and then
the cluster gracefully, also during the start. A second one ends this process at once: no
acknowledged write is lost, and pods that still run are adopted by the next start. SIGUSR1 stops the
cluster and leaves its pods running.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from kilonova.cli.up.components.selection import embeddable_components
from kilonova.cli.up.object_counts import count_nodes
from kilonova.cli.up.options import BUILT_IN_FLEETS, UpOptions, data_directory_error
from kilonova.cli.up.progress import StartupSteps
from kilonova.cli.up.reporter import StartupReporter, pod_shutdown_text
from kilonova.cli.up.welcome import NO_DEMO, Demo, Welcome
from kilonova.component import find_components
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.kube import KubeError
from kilonova.kube.observability import structured_logging

if TYPE_CHECKING:  # imported when a cluster starts
    from kilonova.cli.up.components.assembly import ClusterAssembly
    from kilonova.cli.up.components.states import ComponentStates
    from kilonova.local.cluster import EmbeddedCluster
    from kilonova.local.data_directory import DataDirectory

_API, _NODES, _DEMO = "API", "nodes", "demo"
_COUNT_INTERVAL = 0.1
_FIRST_SERVICE_NETWORK = 96
"""The second number of the addresses of Services, in the first of several clusters."""

_log = structured_logging.get_logger(__name__)


def run_cluster(options: UpOptions, reporter: StartupReporter, lifeline: int | None = None) -> None:
    """Run a cluster until it is stopped; `CommandFailed` if it cannot start or fails.

    It also stops when the other ends of `lifeline`, a pipe, are closed.
    """
    import uvloop

    started_at = time.monotonic()
    gc.disable()  # objects that a start creates are long-lived
    names = [_API, _NODES, *([_DEMO] if _wants_demo(options) else [])]
    steps = StartupSteps(names, reporter.report_progress)
    try:
        steps.start(_API)
        _configure_logging()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run_until_stopped(options, reporter, steps, started_at, lifeline))
    except BaseException as error:
        reporter.report_failure(error)
        raise


def _wants_demo(options: UpOptions) -> bool:
    """The demo is written for the built-in fleets, and needs operator and scheduler."""
    needed = {"operator", "scheduler"}
    return options.demo and options.fleet in BUILT_IN_FLEETS and needed <= {*options.components}


def _configure_logging() -> None:
    # On a terminal, log lines would disturb the progress display.
    quiet = sys.stderr.isatty() and not os.environ.get(structured_logging.LOG_LEVEL_VARIABLE)
    try:
        structured_logging.configure_logging("warning" if quiet else None)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


async def _run_until_stopped(
    options: UpOptions,
    reporter: StartupReporter,
    steps: StartupSteps,
    started_at: float,
    lifeline: int | None,
) -> None:
    from kilonova.local.apiserver.server.listener import PortInUse
    from kilonova.local.apiserver.storage import StorageError
    from kilonova.local.controllers import UnknownController
    from kilonova.local.data_directory import DataDirectoryInUse
    from kilonova.local.simnodes import FleetError

    stop_requested = _stop_requested(lifeline)
    try:
        assembly, component_states = _assemble_cluster(options)
        cluster = assembly.cluster
        assembly.claim_ports()
        if not await _finishes_before(cluster.start(), stop_requested):
            reporter.report_stopping()
            return
    except UnknownController as error:
        raise WrongUsage(f"--controllers {options.controllers}: {error}") from error
    except (DataDirectoryInUse, PortInUse, FleetError, StorageError) as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise data_directory_error(error) from error
    _tune_garbage_collector()
    assert cluster.failure is not None
    assert cluster.folder is not None
    directory = cluster.folder
    link = assembly.find_link("console")
    welcome = partial(
        Welcome,
        cluster.url,
        str(directory.kubeconfig),
        str(options.data),
        console=link,
        simulated=options.fleet is not None,
    )

    async def start_components() -> None:
        problems_by_key: dict[str, str] = {}

        def record_states(states: Mapping[str, str], problems: Mapping[str, str]) -> None:
            nonlocal problems_by_key
            keys = {each.name: each.status_key for each in find_components()}
            problems_by_key = {keys[name]: problem for name, problem in problems.items()}
            directory.update_components(
                {keys[name]: state for name, state in states.items()}, problems_by_key, link
            )

        await _await_components(cluster, component_states.wait_started(record_states), steps)
        demo = await _set_up_demo(cluster, options, steps) if _wants_demo(options) else NO_DEMO
        nodes = await count_nodes(cluster.client("kilonova"))
        seconds = time.monotonic() - started_at
        reporter.report_ready(welcome(seconds, nodes=nodes, demo=demo, problems=problems_by_key))

    try:
        steps.finish(_API, cluster.url)
        reporter.report_api_ready(welcome(time.monotonic() - started_at))
        if await _finishes_before(start_components(), stop_requested, cluster.failure):
            await asyncio.wait(
                {stop_requested, cluster.failure}, return_when=asyncio.FIRST_COMPLETED
            )
        reporter.report_stopping()
        directory.set_stop_reason("requested")
        if cluster.failure.done():
            directory.set_stop_reason("failed", str(cluster.failure.result()))
        if stop_requested.done() and not stop_requested.result():
            await cluster.stop_pods(_pod_shutdown_reporter(directory, reporter))
    except BaseException as error:
        directory.set_stop_reason("failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        await cluster.stop()
    if cluster.failure.done():
        raise CommandFailed(str(cluster.failure.result()))


def _assemble_cluster(options: UpOptions) -> "tuple[ClusterAssembly, ComponentStates]":
    """The cluster with its components, and their states."""
    from kilonova.cli.up.components.assembly import ComponentListeners, assemble_cluster
    from kilonova.cli.up.components.states import ComponentStates
    from kilonova.local.apiserver.kinds.core.service_allocator import ServiceRanges
    from kilonova.local.apiserver.storage import Durability
    from kilonova.local.cluster import ClusterSettings
    from kilonova.local.simnodes import NO_NODES, load_fleet

    fleet = NO_NODES if options.fleet is None else load_fleet(options.fleet)
    has_process_node = "process-node" in options.components
    settings = ClusterSettings(
        name=options.name or "kilonova",
        data=options.data,
        host=options.host,
        port=options.port,
        durability=Durability[options.durability.upper()],
        fleet=fleet,
        controllers=options.controllers,
        process_node=has_process_node,
        allowed_host_paths=options.host_paths,
        services=ServiceRanges(IPv4Network(f"10.{_FIRST_SERVICE_NETWORK + options.index}.0.0/16")),
        images=options.images,
    )
    states = ComponentStates(each.name for each in embeddable_components(find_components()))
    assembly = assemble_cluster(
        options.components,
        settings,
        flags=options.flags,
        listeners=ComponentListeners(states.add_runnables, states.report_health),
    )
    states.add("api", _ready_immediately)
    if options.controllers:
        states.add("controllers", _ready_immediately)
    if fleet.nodes and options.controllers:
        states.add("nodes", assembly.cluster.wait_simulated_nodes)
    if has_process_node and options.controllers:
        states.add("process-node", assembly.cluster.wait_process_node)
    return assembly, states


async def _ready_immediately() -> None:
    """Readiness of a component that is ready once the cluster has started."""


async def _await_components(
    cluster: "EmbeddedCluster", startup: Coroutine[Any, Any, None], steps: StartupSteps
) -> None:
    """Wait until all components run, and report the number of registered nodes meanwhile."""
    task = asyncio.ensure_future(startup)
    try:
        while not task.done():
            done, total = cluster.registered_nodes
            steps.start(_NODES, f"{done:,} of {total:,}" if total else "")
            await asyncio.wait({task}, timeout=_COUNT_INTERVAL)
        task.result()
    finally:
        task.cancel()
    _, total = cluster.registered_nodes
    steps.finish(_NODES, f"{total:,}")


async def _set_up_demo(cluster: "EmbeddedCluster", options: UpOptions, steps: StartupSteps) -> Demo:
    """Set up the demo, unless that was done before; returns what there is of it."""
    from kilonova.cli.up.demo_setup import find_demo, set_up_demo

    steps.start(_DEMO)
    client = cluster.client("kilonova-demo")
    try:
        await set_up_demo(client, options.fleet or "", options.components)
        demo = await find_demo(client)
    except KubeError as error:  # rejected by a webhook or policy of the user
        _log.warning("demo not set up", error=str(error))
        return NO_DEMO
    steps.finish(_DEMO)
    return demo


def _pod_shutdown_reporter(
    directory: "DataDirectory", reporter: StartupReporter
) -> Callable[[int, float], None]:
    """Reports terminating pods here, and in the data directory to a waiting `kilonova down`."""

    def report(count: int, seconds: float) -> None:
        directory.write_stopping_record(count, seconds)
        reporter.report_pod_shutdown(pod_shutdown_text(count, seconds))

    return report


def _stop_requested(lifeline: int | None) -> asyncio.Future[bool]:
    """Done at the first signal, or when the lifeline ends, with whether to keep pods; a second
    signal has its default action."""
    loop = asyncio.get_running_loop()
    requested: asyncio.Future[bool] = loop.create_future()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

    def request_stop(keep_pods: bool) -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        if lifeline is not None:
            loop.remove_reader(lifeline)
        requested.set_result(keep_pods)

    for number in signals:
        loop.add_signal_handler(number, request_stop, number == signal.SIGUSR1)
    if lifeline is not None:
        os.set_inheritable(lifeline, False)
        loop.add_reader(lifeline, request_stop, False)
    return requested


async def _finishes_before(work: Coroutine[Any, Any, None], *ends: asyncio.Future[Any]) -> bool:
    """Whether `work` finishes before any of `ends`; if not, it is cancelled."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return False
    task.result()
    return True


def _tune_garbage_collector() -> None:
    """Collect cyclic garbage rarely: stored objects are many and long-lived.

    With 15,000 pods the collector would take a third of the server's CPU time. Garbage of the
    start, some thousand objects, is not collected: that would take longer than any other step.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
