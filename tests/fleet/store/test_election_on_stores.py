"""The election on real stores, opened by their endpoints, in real time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kilonova.fleet.documents import DESIRED, Desired
from kilonova.fleet.store import EndpointSource, FleetElection, FleetTerm, open_fleet_store
from kilonova.fleet.store.epochs import generation_of
from kilonova.kube.election import LeaderElectionTiming
from tests.conftest import create_namespace

REAL = pytest.mark.real_parts
LIMIT = 60.0
"""Far more seconds than it takes."""


class Manager:
    """A manager that writes one document in each of its terms."""

    def __init__(self, source: EndpointSource) -> None:
        self.epochs: list[int] = []
        self.wrote = asyncio.Event()
        # A long lease, so that a loaded machine does not end a term.
        timing = LeaderElectionTiming(lease_duration=30, renew_deadline=20, retry_period=0.2)
        self._election = FleetElection(source, timing=timing)
        self._task = asyncio.create_task(self._election.run(self._lead))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def wait(self) -> int:
        """Until it leads and has written."""
        await asyncio.wait_for(self.wrote.wait(), LIMIT)
        return self.epochs[-1]

    async def _lead(self, term: FleetTerm) -> None:
        found = await term.store.read(DESIRED, "m")
        sequence = 1 if found is None else found.document.sequence + 1
        document = Desired(cluster="m", epoch=term.epoch, sequence=sequence)
        await term.store.write(DESIRED, document, found.version if found else None)
        self.epochs.append(term.epoch)
        self.wrote.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.wrote.clear()


def build_endpoint(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if "," in kind:
        return ",".join(build_endpoint(each, request, folder) for each in kind.split(","))
    if kind == "directory":
        return f"file://{folder}/store"
    if kind in ("s3", "moto"):
        bucket: Any = request.getfixturevalue(f"{kind}_bucket")
        return f"s3://{bucket.name}/fleet?endpoint={bucket.url}&region=us-east-1"
    access = request.getfixturevalue(kind).access
    namespace = create_namespace(kind, access).namespace
    return f"kubernetes://{namespace}?kubeconfig={access.kubeconfig}"


@pytest.mark.parametrize(
    "kind",
    [
        "directory",
        "moto",
        "embedded_server",
        "directory,moto,embedded_server",
        pytest.param("s3", marks=REAL),
        pytest.param("control_plane", marks=REAL),
        pytest.param("directory,s3,control_plane", marks=REAL),
    ],
)
async def test_lead_is_handed_over_and_moves_to_another_store(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first = build_endpoint(kind, request, tmp_path)
    second = str(tmp_path / "other")
    file = tmp_path / "endpoint"
    file.write_text(first)
    source = EndpointSource(f"@{file}", poll_seconds=0.05)
    one = Manager(source)
    epochs = [await one.wait()]
    two = Manager(source)
    await one.stop()
    epochs.append(await two.wait())
    file.write_text(second)
    await asyncio.wait_for(_wait_for_epochs(two, 2), LIMIT)
    epochs.append(two.epochs[-1])
    await two.stop()
    assert epochs == sorted(set(epochs))
    assert [generation_of(each) for each in epochs] == [1, 1, 2]
    store = open_fleet_store(second)
    found = await store.read(DESIRED, "m")
    assert found is not None
    assert (found.document.sequence, found.document.epoch) == (3, epochs[-1])
    await store.close()


async def _wait_for_epochs(manager: Manager, number: int) -> None:
    while len(manager.epochs) < number:
        await asyncio.sleep(0.02)
