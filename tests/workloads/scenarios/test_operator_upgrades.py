"""Operator restarts and upgrades with another hash function replace no pods."""

from typing import Any

from kilonova.api.grove import names
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.set_updates import (
    ALL_CLIQUES,
    NEW,
    UpdateScenario,
    by_group_replica,
    list_deletion_order,
    running_set,
)
from tests.workloads.workload_cluster import (
    CLIQUES,
    CONTROLLER_REVISIONS,
    PODS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
)


async def wait_until_quiescent(scenario: UpdateScenario) -> None:
    """Wait until a new operator has seen everything: it makes good what is missing first."""
    service = f"{scenario.name}-0"
    await scenario.cluster.client.delete(SERVICES, service, scenario.cluster.namespace)

    async def made_again() -> bool:
        return await scenario.cluster.get(SERVICES, service) is not None

    await scenario.cluster.wait_until(made_again)
    await scenario.cluster.wait_until_settled()


async def test_new_operator_replaces_nothing(api: ScenarioApi) -> None:
    async with running_set(api, "upgrade", 2) as scenario:
        uids = {each.uid for each in scenario.history.current}
        await scenario.cluster.stop_operator()
        await scenario.cluster.start_operator()
        await wait_until_quiescent(scenario)
        assert {each.uid for each in scenario.history.current} == uids
        assert (scenario.history.deleted, scenario.history.created) == ([], [])
        assert len(await scenario.cluster.list_objects(CONTROLLER_REVISIONS)) == 1
        assert "updateProgress" not in await scenario.get_status()


async def use_other_hashes(scenario: UpdateScenario) -> None:
    """Leave everything as an operator would have that gave other hashes to the same templates."""
    replica = scenario.cluster
    [revision] = await replica.list_objects(CONTROLLER_REVISIONS)
    labels, data = revision["metadata"]["labels"], revision["data"]
    other = {each: compute_other_hash(each) for each in data["hashes"].values()}
    other[labels[names.GENERATION_HASH]] = compute_other_hash(labels[names.GENERATION_HASH])
    kept = {"labels": rehash_labels(labels, other)} | {
        field: revision["metadata"][field] for field in ("namespace", "ownerReferences")
    }
    await replica.client.delete(
        CONTROLLER_REVISIONS, revision["metadata"]["name"], replica.namespace
    )
    name = names.revision(scenario.name, kept["labels"][names.GENERATION_HASH])
    hashes = {clique: other[hash_] for clique, hash_ in data["hashes"].items()}
    body = {
        "metadata": {"name": name, **kept},
        "revision": 1,
        "data": {**data, "hashes": hashes},
    }
    await replica.client.create(CONTROLLER_REVISIONS, body, replica.namespace)
    for resource in (CLIQUES, SCALING_GROUPS, PODS):
        for each in await replica.list_objects(resource):
            patch = {"metadata": {"labels": rehash_labels(each["metadata"]["labels"], other)}}
            await replica.client.patch(resource, each["metadata"]["name"], patch, replica.namespace)
    for resource, fields in (
        (SETS, ["currentGenerationHash"]),
        (SCALING_GROUPS, ["currentPodCliqueSetGenerationHash"]),
        (CLIQUES, ["currentPodCliqueSetGenerationHash", "currentPodTemplateHash"]),
    ):
        for each in await replica.list_objects(resource):
            status = {field: other[each["status"][field]] for field in fields}
            await replica.client.patch(
                resource,
                each["metadata"]["name"],
                {"status": status},
                replica.namespace,
                subresource="status",
            )


def compute_other_hash(hash_: str) -> str:
    return hash_[::-1]


def rehash_labels(labels: Any, other: dict[str, str]) -> Any:
    hashes = (names.GENERATION_HASH, names.POD_TEMPLATE_HASH)
    return {key: other[value] if key in hashes else value for key, value in labels.items()}


async def test_operator_with_another_hash_function_replaces_only_edited_cliques(
    api: ScenarioApi,
) -> None:
    async with running_set(api, "workload1", 10) as scenario:
        before = (await scenario.get_status())["currentGenerationHash"]
        await scenario.cluster.stop_operator()
        await use_other_hashes(scenario)
        await scenario.cluster.start_operator()
        await wait_until_quiescent(scenario)
        assert (scenario.history.deleted, scenario.history.created) == ([], [])
        assert (await scenario.get_status())["currentGenerationHash"] == compute_other_hash(before)
        await scenario.edit_image(NEW, "pc-b")
        await scenario.wait_until_updated(1)
        assert list_deletion_order(scenario.history.deleted, by_group_replica) == [(0, 0), (0, 1)]
        assert len(scenario.history.created) == 8


async def test_new_operator_continues_an_update_without_repeating_steps(api: ScenarioApi) -> None:
    async with running_set(api, "workload1", 10) as scenario:
        await scenario.cordon_all_nodes()
        await scenario.edit_image(NEW, *ALL_CLIQUES)
        history = scenario.history
        await history.wait_until(lambda: sum(each.image == NEW for each in history.current) == 5)
        await scenario.cluster.stop_operator()
        await scenario.uncordon_all_nodes()
        await scenario.cluster.start_operator()
        await scenario.wait_until_updated(1)
        await history.wait_until_ready(10, NEW)
        assert len(history.deleted) == len(history.created) == 10
