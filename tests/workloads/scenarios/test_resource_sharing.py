"""RS1: claims that pods share. Scenario numbers are those of the specification."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import unstructured_resource
from tests.workloads.manifests.load import load_manifest, load_set
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import CLIQUES, PODS, RESOURCE_CLAIMS, SCALING_GROUPS, SETS

TEMPLATES = unstructured_resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)
MANIFEST = "workload-resource-sharing"


def list_expected_claims(index: int, *, pods: int = 1, groups: int = 2) -> list[str]:
    """The claims of a replica with so many pods of worker-a and replicas of sga."""
    worker, group = f"rs-{index}-worker-a", f"rs-{index}-sga"
    return [
        f"rs-{index}-set-each",
        f"rs-{index}-external",
        f"{worker}-all-a-all",
        *(f"{worker}-{pod}-a-each" for pod in range(pods)),
        f"{group}-all-group-all",
        *(f"{group}-{each}-group-each" for each in range(groups)),
        *(f"{group}-{each}-worker-b-all-b-all" for each in range(groups)),
        *(f"{group}-{each}-worker-b-0-b-each" for each in range(groups)),
    ]


async def wait_for_claims(cluster: ScenarioCluster, *replicas: list[str]) -> None:
    """Wait until exactly these claims are there, and that of the whole set."""
    wanted = sorted(["rs-all-set-all", *(name for each in replicas for name in each)])

    async def condition() -> bool:
        return [
            each["metadata"]["name"] for each in await cluster.list_objects(RESOURCE_CLAIMS)
        ] == wanted

    await cluster.wait_until(condition)


async def start_set(cluster: ScenarioCluster) -> None:
    (external,) = [
        each for each in load_manifest(MANIFEST) if each["kind"] == "ResourceClaimTemplate"
    ]
    await cluster.client.create(TEMPLATES, external, cluster.namespace)
    await cluster.apply(MANIFEST)
    await cluster.wait_until_running(3)


async def test_rs1_claims_are_created_and_deleted_with_their_owners(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        await start_set(cluster)
        await wait_for_claims(cluster, list_expected_claims(0))
        assert len(await cluster.list_objects(RESOURCE_CLAIMS)) == 12
        owners = {
            each["metadata"]["name"]: [one["name"] for one in each["metadata"]["ownerReferences"]]
            for each in await cluster.list_objects(RESOURCE_CLAIMS)
        }
        assert owners["rs-all-set-all"] == owners["rs-0-set-each"] == ["rs"]
        assert owners["rs-0-sga-all-group-all"] == owners["rs-0-sga-1-group-each"] == ["rs-0-sga"]
        assert owners["rs-0-worker-a-all-a-all"] == ["rs-0-worker-a"]
        assert owners["rs-0-sga-1-worker-b-0-b-each"] == ["rs-0-sga-1-worker-b"]
        await cluster.scale(SCALING_GROUPS, "rs-0-sga", 3)
        await wait_for_claims(cluster, list_expected_claims(0, groups=3))
        assert len(await cluster.list_objects(RESOURCE_CLAIMS)) == 15
        await cluster.scale(SCALING_GROUPS, "rs-0-sga", 2)
        await wait_for_claims(cluster, list_expected_claims(0))
        await cluster.scale(CLIQUES, "rs-0-worker-a", 3)
        await wait_for_claims(cluster, list_expected_claims(0, pods=3))
        assert len(await cluster.list_objects(RESOURCE_CLAIMS)) == 14
        await cluster.scale(CLIQUES, "rs-0-worker-a", 1)
        await wait_for_claims(cluster, list_expected_claims(0))
        await cluster.scale(SETS, "rs", 2)
        await wait_for_claims(cluster, list_expected_claims(0), list_expected_claims(1))
        assert len(await cluster.list_objects(RESOURCE_CLAIMS)) == 23
        await cluster.wait_until_running(6)
        await cluster.scale(SETS, "rs", 0)
        await wait_for_claims(cluster)


async def test_rs1_each_pod_refers_to_exactly_its_claims(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        await start_set(cluster)
        (alone,) = await cluster.list_pods("rs-0-worker-a")
        assert list_claim_references(alone) == {
            "rs-all-set-all",
            "rs-0-set-each",
            "rs-0-worker-a-all-a-all",
            "rs-0-worker-a-0-a-each",
        }
        for index in (0, 1):
            clique = f"rs-0-sga-{index}-worker-b"
            (member,) = await cluster.list_pods(clique)
            assert list_claim_references(member) == {
                "rs-all-set-all",
                "rs-0-external",
                "rs-0-sga-all-group-all",
                f"rs-0-sga-{index}-group-each",
                f"{clique}-all-b-all",
                f"{clique}-0-b-each",
            }


def list_claim_references(pod: Any) -> set[str]:
    """The claims of a pod; all of its containers use all of them."""
    claims = {each["name"]: each["resourceClaimName"] for each in pod["spec"]["resourceClaims"]}
    for container in pod["spec"]["containers"]:
        assert {each["name"] for each in container["resources"]["claims"]} == claims.keys()
    return set(claims.values())


async def test_rs1_pod_recreated_has_the_claims_of_its_index(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        await start_set(cluster)
        await cluster.scale(CLIQUES, "rs-0-worker-a", 2)
        await cluster.wait_until_running(4)
        claims = {
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in await cluster.list_objects(RESOURCE_CLAIMS)
        }
        before = {
            get_index(each): list_claim_references(each)
            for each in await cluster.list_pods("rs-0-worker-a")
        }
        (first, *_) = await cluster.list_pods("rs-0-worker-a")
        await cluster.client.delete(PODS, first["metadata"]["name"], cluster.namespace)

        async def replaced() -> bool:
            uids = {
                each["metadata"]["uid"] for each in await cluster.list_ready_pods("rs-0-worker-a")
            }
            return len(uids) == 2 and first["metadata"]["uid"] not in uids

        await cluster.wait_until(replaced)
        after = {
            get_index(each): list_claim_references(each)
            for each in await cluster.list_pods("rs-0-worker-a")
        }
        assert after == before
        found = await cluster.list_objects(RESOURCE_CLAIMS)
        assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in found} == claims


def get_index(pod: Any) -> str:
    return pod["metadata"]["labels"]["grove.io/podclique-pod-index"]


async def test_rs1_late_template_is_used_once_created(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        await cluster.apply(MANIFEST)

        async def says_why() -> bool:
            found = (await cluster.get(SETS, "rs")).get("status", {}).get("lastErrors", [])
            return any(
                each["code"] == "ERR_SYNC_RESOURCE_CLAIMS"
                and "Cannot read ResourceClaimTemplate external" in each["description"]
                for each in found
            )

        await cluster.wait_until(says_why)
        # The set and the group exist; pods of cliques would wait for claims that cannot be created.
        early = ("-set-each", "-group-all", "-group-each")
        await wait_for_claims(
            cluster, [each for each in list_expected_claims(0) if each.endswith(early)]
        )
        assert await cluster.list_objects(CLIQUES) == []
        assert await cluster.list_objects(PODS) == []
        (external,) = [each for each in load_manifest(MANIFEST) if each["kind"] != "PodCliqueSet"]
        await cluster.client.create(TEMPLATES, external, cluster.namespace)
        await wait_for_claims(cluster, list_expected_claims(0))
        await cluster.wait_until_running(3)

        async def says_nothing() -> bool:
            return "lastErrors" not in (await cluster.get(SETS, "rs"))["status"]

        await cluster.wait_until(says_nothing)


async def test_rs1_claims_without_filters_reach_all_pods(api: ScenarioApi) -> None:
    body: JsonObject = load_set(MANIFEST)
    template = body["spec"]["template"]
    template["resourceSharing"] = [{"name": "set-each", "scope": "PerReplica"}]
    template["podCliqueScalingGroups"][0].pop("resourceSharing")
    for each in template["cliques"]:
        each.pop("resourceSharing")
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        await cluster.apply(body)
        await cluster.wait_until_running(3)
        assert [list_claim_references(each) for each in await cluster.list_pods()] == [
            {"rs-0-set-each"}
        ] * 3
