"""GS: a gang starts as a whole or not at all. Scenario numbers are those of the specification."""

from tests.conftest import Api
from tests.workloads.ground import GANGS
from tests.workloads.scenarios.world import World, world

SET = "workload1"


async def conditions(world: World, gang: str) -> dict[str, str]:
    found = await world.get(GANGS, gang)
    return {each["type"]: each["status"] for each in found["status"].get("conditions", [])}


async def test_gs1_ten_pods_wait_for_the_tenth_node(api: Api) -> None:
    async with world(api, nodes=10, free=9) as stage:
        await stage.apply("workload1")

        async def all_wait() -> bool:
            pods = await stage.pods()
            reasons = [
                each.get("reason")
                for pod in pods
                for each in pod.get("status", {}).get("conditions", [])
            ]
            return len(pods) == 10 and reasons.count("Unschedulable") == 10

        await stage.until(all_wait)
        assert await stage.running() == []
        assert (await conditions(stage, f"{SET}-0"))["Initialized"] == "True"
        await stage.free(10)
        await stage.until_running(10)

        async def ready() -> bool:
            return (await conditions(stage, f"{SET}-0")).get("Ready") == "True"

        await stage.until(ready)
        gang = await stage.get(GANGS, f"{SET}-0")
        assert gang["status"]["phase"] == "Running"
