"""A controller of cliques that dies at any of its writes; another, started after it, goes on."""

import asyncio
from typing import Any

from kilonova.api.grove import names
from kilonova.api.grove.parts import RollingUpdate
from tests.local.embedded_cluster import eventually, gone, settle, virtual_time
from tests.workloads.builders import clique, pod_clique_set
from tests.workloads.cliques.clique_stage import Process, Stage, stage
from tests.workloads.ground import CLIQUES, GANGS, NAMESPACE, PODS, SETS

pytestmark = virtual_time

A, W = "sys-0-a", "sys-0-w"


async def play(scene: Stage) -> Any:
    """Two cliques start one after the other, one is scaled and updated, one is started anew."""
    surge = RollingUpdate(0, 1)
    templates = clique("a", 2, 1), clique("w", 2, after=["a"], rolling_update=surge)
    startup: Any = "CliqueStartupTypeExplicit"
    set_ = await scene.add_set(pod_clique_set(*templates, startup=startup))
    made = [await scene.add_clique(set_, name) for name in ("w", "a")]
    await scene.add_gang(*made)
    await scene.until_ready(2, A)
    await scene.until_ready(2)
    await scene.scale(W, 3)
    await _listed_until_ready(scene, 3)
    await scene.give_turn()
    await scene.change_template(W, "second", "img:2")
    await scene.until(lambda each: "updateProgress" in each)
    await _listed_until_ready(scene, 3)
    before = await scene.pods(A)
    await scene.patch(CLIQUES, A, {"metadata": {"annotations": {names.INCARNATION: "1"}}})
    await scene.until_gone(before)
    await _listed_until_ready(scene, 2, A)
    await scene.scale(W, 1)
    await scene.until_ready(1)
    await settle(5)
    return await _picture(scene)


async def _listed_until_ready(scene: Stage, count: int, name: str = W) -> None:
    async def so() -> bool:
        await scene.list_pods()
        status = await scene.status(name)
        fields = ("replicas", "readyReplicas", "updatedReplicas")
        over = "updateEndedAt" in status.get("updateProgress", {"updateEndedAt": ""})
        # A status is as old as its writer is dead.
        true = sum(map(_is_ready, await scene.pods(name))) == count
        return true and over and all(status.get(field) == count for field in fields)

    await eventually(so, within=300)


def _is_ready(pod: Any) -> bool:
    known = pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in known)


async def _picture(scene: Stage) -> Any:
    """What there is, without what differs from one run to the next."""
    pods = [
        {
            **{key: value for key, value in each["metadata"].items() if key in _KEPT},
            "gates": each["spec"].get("schedulingGates"),
            "image": each["spec"]["containers"][0]["image"],
            "hostname": each["spec"]["hostname"],
        }
        for each in await scene.place.all(PODS)
    ]
    statuses = {name: _plain(await scene.status(name)) for name in (A, W)}
    return {"pods": sorted(pods, key=lambda each: each["hostname"]), "statuses": statuses}


_KEPT = ("labels", "annotations", "generateName", "deletionTimestamp")


def _plain(value: Any, field: str = "") -> Any:
    if field.endswith(("Time", "At")):
        return "TIME"
    if field == "readyPodsSelectedToUpdate":
        return len({value["current"], *value["completed"]})
    if isinstance(value, dict):
        return {key: _plain(item, key) for key, item in value.items()}
    if field == "conditions":
        return sorted((_plain(each) for each in value), key=lambda each: each["type"])
    return value


async def _clear(scene: Stage) -> None:
    client = scene.place.client
    for resource, name in ((CLIQUES, A), (CLIQUES, W), (GANGS, "sys-0"), (SETS, "sys")):
        await client.delete(resource, name, NAMESPACE)
        await gone(client, resource, name)

    async def nothing_left() -> bool:
        return not await scene.place.left()

    await eventually(nothing_left)


async def ending(scene: Stage, writes: int | None) -> tuple[Any, bool]:
    """What the story leaves behind when the process dies at that write; and whether it did."""
    first = Process(scene.place.cluster, writes)
    left: list[Any] = []

    async def story() -> None:
        left.append(await play(scene))
        await _clear(scene)

    playing = asyncio.create_task(story())
    async with first.running():
        dying = asyncio.create_task(first.died.wait())
        await asyncio.wait({playing, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
    if not playing.done():
        async with Process(scene.place.cluster).running():
            await playing
    await playing
    return left[0], first.died.is_set()


async def test_a_story_ends_the_same_wherever_its_controller_dies() -> None:
    async with stage() as scene:
        expected, died = await ending(scene, None)
        assert not died
        writes, died = 0, True
        while died:
            left, died = await ending(scene, writes)
            assert left == expected, f"after {writes} writes"
            writes += 1
        assert writes > 30
