"""Manager and agents together: a hub and three members in virtual time."""

from kilonova.fleet.documents import OBSERVED
from kilonova.fleet.store import FleetStore
from tests.fleet.store.stores import MemoryStore
from tests.fleet.support.fleet_lab import run_lab
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

THREE = {"a": 10, "b": 10, "c": 10}


async def test_release_runs_in_all_members() -> None:
    async with run_lab(THREE) as lab:
        await lab.create_release("v1")
        await lab.deploy(replicas=6)
        await lab.wait_ready(6)
        assert await lab.get_desired() == {"a": 2, "b": 2, "c": 2}
        found = await FleetStore(MemoryStore(lab.bucket)).read(OBSERVED, "a")
        assert found is not None
        assert found.document.region == "region-a"
        assert await lab.get_health("a") == "Healthy"
