"""Rows: a pass of the manager over many clusters, all of which have reported since the last one.

A pass reads all reports from the store, plans, and writes what differs: everything that the leader
does every two seconds. Placing all instances in empty clusters is a pass, too, as is moving those
of a lost cluster. Each row is measured in a process of its own, for its memory.
"""

import asyncio
import gc
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from bench.fleet.inputs import Inputs
from bench.report import Quantity, Row
from kilonova.api.fleet import AcceleratorCount, Cluster, ClusterSpec
from kilonova.api.inference_engine import (
    Accelerator,
    Deployment,
    DeploymentSpec,
    EngineSpec,
    Release,
)
from kilonova.api.meta import Metadata
from kilonova.fleet.documents import (
    DESIRED,
    OBSERVED,
    DesiredDeployment,
    Observed,
    ObservedDeployment,
    ReleaseCount,
)
from kilonova.fleet.manager import ManagerSettings
from kilonova.fleet.manager.context import ManagerContext
from kilonova.fleet.manager.fleet_pass import FleetLeader
from kilonova.fleet.manager.hub import FINALIZER, build_hub
from kilonova.fleet.manager.hub_writer import HubWriter
from kilonova.fleet.store import FleetStore, FleetTerm, StoredDocument, open_fleet_store
from kilonova.kube import Client, InProcessTransport, Reply, Request
from kilonova.kube.election import LeaderElectionTiming, Leadership
from kilonova.kube.events import EventRecorder

MAX_SECONDS = 1.0
MAX_MEGABYTES = 300.0
_DEPLOYMENTS = 100
"""Each has instances in every cluster."""
_AGENTS = 2
_NAMESPACE = "inference-engine"


def measure(inputs: Inputs) -> list[Row]:
    """The time of a pass, and the memory of the process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        first, usual, megabytes = pool.apply(_measure, (inputs,))
    size = f"{inputs.clusters} clusters × {inputs.instances:,} instances"
    return [
        Row(Quantity(f"a pass of the manager, {size}", "s", "less", MAX_SECONDS), usual),
        Row(Quantity(f"the pass that places them, {size}", "s", "less"), first),
        Row(Quantity("memory of the process", "MB", "less", MAX_MEGABYTES), megabytes),
    ]


def _measure(inputs: Inputs) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        first, usual = asyncio.run(_Fleet(inputs, Path(folder)).measure())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return first, usual, megabytes


class _Fleet:
    """A leader, and members that have what is desired."""

    def __init__(self, inputs: Inputs, folder: Path) -> None:
        self._inputs = inputs
        self._folder = folder
        self._names = [f"cluster-{number:03}" for number in range(inputs.clusters)]
        self._versions: dict[str, StoredDocument[Observed]] = {}

    async def measure(self) -> tuple[float, float]:
        """Seconds of the pass that places everything, and of the fastest one after it."""
        store = open_fleet_store(str(self._folder))
        timing = LeaderElectionTiming()
        leadership = Leadership("bench", 1, 0.0, timing, lambda: 0.0)
        leader = FleetLeader(
            _build_context(self._build_objects()),
            FleetTerm(store, 1 << 32, leadership),
            asyncio.Event(),
        )
        await leader.load()
        await self._report(store)
        await leader.run_pass()
        await self._report(store)
        first = await _time(leader.run_pass)
        await self._report(store)
        await leader.run_pass()
        usual = float("inf")
        for _ in range(self._inputs.runs):
            await self._report(store)
            usual = min(usual, await _time(leader.run_pass))
        found = await store.read_all(DESIRED)
        placed = sum(each.replicas for one in found for each in one.document.deployments)
        assert placed == self._inputs.clusters * self._inputs.instances, placed
        await store.close()
        return first, usual

    def _build_objects(self) -> list[Cluster | Deployment | Release]:
        spec = EngineSpec(model="m", target_agents=_AGENTS, accelerator=Accelerator(count=1))
        replicas = self._inputs.clusters * self._inputs.instances // _DEPLOYMENTS
        return [
            *(Cluster(_metadata(name, ""), ClusterSpec(region=name[-1])) for name in self._names),
            Release(_metadata("v1"), spec),
            *(
                Deployment(
                    _metadata(f"model-{number:03}"),
                    DeploymentSpec(release="v1", replicas=replicas),
                )
                for number in range(_DEPLOYMENTS)
            ),
        ]

    async def _report(self, store: FleetStore) -> None:
        """Every member reports that it has what is desired."""
        total = self._inputs.instances * _AGENTS
        for name in self._names:
            told = await store.read(DESIRED, name)
            desired = () if told is None else told.document.deployments
            free = total - _AGENTS * sum(each.replicas for each in desired)
            old = self._versions.get(name)
            report = Observed(
                cluster=name,
                sequence=1 if old is None else old.document.sequence + 1,
                nodes=total // 8,
                accelerators=(AcceleratorCount("nvidia.com/gpu", total, free),),
                deployments=tuple(_observe(each, free // _AGENTS) for each in desired),
            )
            version = None if old is None else old.version
            self._versions[name] = await store.write(OBSERVED, report, version)


def _observe(desired: DesiredDeployment, additional: int) -> ObservedDeployment:
    count = desired.replicas
    return ObservedDeployment(
        namespace=desired.namespace,
        name=desired.name,
        global_deployment=desired.global_deployment,
        release=desired.release,
        releases=(ReleaseCount(desired.release, count, count),) if count else (),
        replicas=count,
        ready=count,
        updated=count,
        placed=count,
        additional_replicas=additional,
    )


def _metadata(name: str, namespace: str = _NAMESPACE) -> Metadata:
    return Metadata(name, name, "1", namespace=namespace, generation=1, finalizers=(FINALIZER,))


def _build_context(objects: list[Cluster | Deployment | Release]) -> ManagerContext:
    client = Client(InProcessTransport(_refuse))
    hub = build_hub(client)
    for each in objects:
        match each:
            case Cluster():
                hub.clusters.store.put(each)
            case Deployment():
                hub.deployments.store.put(each)
            case Release():
                hub.releases.store.put(each)
    for store in (hub.clusters.store, hub.deployments.store, hub.releases.store):
        store.has_synced = True
    began, start = datetime.now(UTC), time.monotonic()
    return ManagerContext(
        hub,
        HubWriter(client, lambda: False),
        EventRecorder(client, "bench"),
        ManagerSettings(),
        None,
        lambda: began + timedelta(seconds=time.monotonic() - start),
        time.monotonic,
    )


async def _refuse(request: Request) -> Reply:
    return Reply(503, msgspec.json.encode({}), {})


async def _time(work: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start
