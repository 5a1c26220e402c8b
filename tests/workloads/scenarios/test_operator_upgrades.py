"""Operators come and go, and newer ones hash templates otherwise: pods stay as they are."""

from typing import Any

from kilonova.api.grove import names
from tests.conftest import Api
from tests.workloads.ground import CLIQUES, GROUPS, PODS, REVISIONS, SERVICES, SETS
from tests.workloads.scenarios.updating import ALL, NEW, Stage, by_unit, order, running_set


async def until_at_rest(stage: Stage) -> None:
    """Wait until a new operator has seen everything: it makes good what is missing first."""
    service = f"{stage.name}-0"
    await stage.world.client.delete(SERVICES, service, stage.world.namespace)

    async def made_again() -> bool:
        return await stage.world.get(SERVICES, service) is not None

    await stage.world.until(made_again)
    await stage.world.until_settled()


async def test_new_operator_replaces_nothing(api: Api) -> None:
    async with running_set(api, "upgrade", 2) as stage:
        uids = {each.uid for each in stage.story.now}
        await stage.world.stop_operator()
        await stage.world.start_operator()
        await until_at_rest(stage)
        assert {each.uid for each in stage.story.now} == uids
        assert (stage.story.deleted, stage.story.born) == ([], [])
        assert len(await stage.world.all(REVISIONS)) == 1
        assert "updateProgress" not in await stage.status()


async def hash_otherwise(stage: Stage) -> None:
    """Leave everything as an operator would have that gave other hashes to the same templates."""
    world = stage.world
    [revision] = await world.all(REVISIONS)
    labels, data = revision["metadata"]["labels"], revision["data"]
    other = {each: other_hash(each) for each in data["hashes"].values()}
    other[labels[names.GENERATION_HASH]] = other_hash(labels[names.GENERATION_HASH])
    kept = {"labels": rehashed(labels, other)} | {
        field: revision["metadata"][field] for field in ("namespace", "ownerReferences")
    }
    await world.client.delete(REVISIONS, revision["metadata"]["name"], world.namespace)
    name = names.revision(stage.name, kept["labels"][names.GENERATION_HASH])
    hashes = {clique: other[hash_] for clique, hash_ in data["hashes"].items()}
    body = {
        "metadata": {"name": name, **kept},
        "revision": 1,
        "data": {**data, "hashes": hashes},
    }
    await world.client.create(REVISIONS, body, world.namespace)
    for resource in (CLIQUES, GROUPS, PODS):
        for each in await world.all(resource):
            patch = {"metadata": {"labels": rehashed(each["metadata"]["labels"], other)}}
            await world.client.patch(resource, each["metadata"]["name"], patch, world.namespace)
    for resource, fields in (
        (SETS, ["currentGenerationHash"]),
        (GROUPS, ["currentPodCliqueSetGenerationHash"]),
        (CLIQUES, ["currentPodCliqueSetGenerationHash", "currentPodTemplateHash"]),
    ):
        for each in await world.all(resource):
            status = {field: other[each["status"][field]] for field in fields}
            await world.client.patch(
                resource,
                each["metadata"]["name"],
                {"status": status},
                world.namespace,
                subresource="status",
            )


def other_hash(hash_: str) -> str:
    return hash_[::-1]


def rehashed(labels: Any, other: dict[str, str]) -> Any:
    hashes = (names.GENERATION_HASH, names.POD_TEMPLATE_HASH)
    return {key: other[value] if key in hashes else value for key, value in labels.items()}


async def test_operator_that_hashes_otherwise_replaces_nothing_but_what_is_edited(api: Api) -> None:
    async with running_set(api, "workload1", 10) as stage:
        before = (await stage.status())["currentGenerationHash"]
        await stage.world.stop_operator()
        await hash_otherwise(stage)
        await stage.world.start_operator()
        await until_at_rest(stage)
        assert (stage.story.deleted, stage.story.born) == ([], [])
        assert (await stage.status())["currentGenerationHash"] == other_hash(before)
        await stage.edit(NEW, "pc-b")
        await stage.until_updated(1)
        assert order(stage.story.deleted, by_unit) == [(0, 0), (0, 1)]
        assert len(stage.story.born) == 8


async def test_new_operator_goes_on_with_an_update_and_does_nothing_twice(api: Api) -> None:
    async with running_set(api, "workload1", 10) as stage:
        await stage.stall()
        await stage.edit(NEW, *ALL)
        story = stage.story
        await story.until(lambda: sum(each.image == NEW for each in story.now) == 5)
        await stage.world.stop_operator()
        await stage.go_on()
        await stage.world.start_operator()
        await stage.until_updated(1)
        await story.until_ready(10, NEW)
        assert len(story.deleted) == len(story.born) == 10
