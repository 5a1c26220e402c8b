"""RS1: claims that pods share. Scenario numbers are those of the specification."""

from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import plain
from tests.conftest import Api
from tests.workloads.ground import CLAIMS, CLIQUES, GROUPS, PODS, SETS
from tests.workloads.manifests.load import manifest, set_of
from tests.workloads.scenarios.world import World, world

TEMPLATES = plain("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
MANIFEST = "workload-resource-sharing"


def claims_of(index: int, *, pods: int = 1, groups: int = 2) -> list[str]:
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


async def until_claims(stage: World, *replicas: list[str]) -> None:
    """Wait until exactly these claims are there, and that of the whole set."""
    wanted = sorted(["rs-all-set-all", *(name for each in replicas for name in each)])

    async def so() -> bool:
        return [each["metadata"]["name"] for each in await stage.all(CLAIMS)] == wanted

    await stage.until(so)


async def start(stage: World) -> None:
    (external,) = [each for each in manifest(MANIFEST) if each["kind"] == "ResourceClaimTemplate"]
    await stage.client.create(TEMPLATES, external, stage.namespace)
    await stage.apply(MANIFEST)
    await stage.until_running(3)


async def test_rs1_claims_come_and_go_with_what_shares_them(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        await start(stage)
        await until_claims(stage, claims_of(0))
        assert len(await stage.all(CLAIMS)) == 12
        owners = {
            each["metadata"]["name"]: [one["name"] for one in each["metadata"]["ownerReferences"]]
            for each in await stage.all(CLAIMS)
        }
        assert owners["rs-all-set-all"] == owners["rs-0-set-each"] == ["rs"]
        assert owners["rs-0-sga-all-group-all"] == owners["rs-0-sga-1-group-each"] == ["rs-0-sga"]
        assert owners["rs-0-worker-a-all-a-all"] == ["rs-0-worker-a"]
        assert owners["rs-0-sga-1-worker-b-0-b-each"] == ["rs-0-sga-1-worker-b"]
        await stage.scale(GROUPS, "rs-0-sga", 3)
        await until_claims(stage, claims_of(0, groups=3))
        assert len(await stage.all(CLAIMS)) == 15
        await stage.scale(GROUPS, "rs-0-sga", 2)
        await until_claims(stage, claims_of(0))
        await stage.scale(CLIQUES, "rs-0-worker-a", 3)
        await until_claims(stage, claims_of(0, pods=3))
        assert len(await stage.all(CLAIMS)) == 14
        await stage.scale(CLIQUES, "rs-0-worker-a", 1)
        await until_claims(stage, claims_of(0))
        await stage.scale(SETS, "rs", 2)
        await until_claims(stage, claims_of(0), claims_of(1))
        assert len(await stage.all(CLAIMS)) == 23
        await stage.until_running(6)
        await stage.scale(SETS, "rs", 0)
        await until_claims(stage)


async def test_rs1_each_pod_refers_to_exactly_its_claims(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        await start(stage)
        (alone,) = await stage.pods("rs-0-worker-a")
        assert references(alone) == {
            "rs-all-set-all",
            "rs-0-set-each",
            "rs-0-worker-a-all-a-all",
            "rs-0-worker-a-0-a-each",
        }
        for index in (0, 1):
            clique = f"rs-0-sga-{index}-worker-b"
            (member,) = await stage.pods(clique)
            assert references(member) == {
                "rs-all-set-all",
                "rs-0-external",
                "rs-0-sga-all-group-all",
                f"rs-0-sga-{index}-group-each",
                f"{clique}-all-b-all",
                f"{clique}-0-b-each",
            }


def references(pod: Any) -> set[str]:
    """The claims of a pod; all of its containers use all of them."""
    claims = {each["name"]: each["resourceClaimName"] for each in pod["spec"]["resourceClaims"]}
    for container in pod["spec"]["containers"]:
        assert {each["name"] for each in container["resources"]["claims"]} == claims.keys()
    return set(claims.values())


async def test_rs1_pod_made_anew_has_the_claims_of_its_index(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        await start(stage)
        await stage.scale(CLIQUES, "rs-0-worker-a", 2)
        await stage.until_running(4)
        claims = {
            each["metadata"]["name"]: each["metadata"]["uid"] for each in await stage.all(CLAIMS)
        }
        before = {index(each): references(each) for each in await stage.pods("rs-0-worker-a")}
        (first, *_) = await stage.pods("rs-0-worker-a")
        await stage.client.delete(PODS, first["metadata"]["name"], stage.namespace)

        async def replaced() -> bool:
            uids = {each["metadata"]["uid"] for each in await stage.running("rs-0-worker-a")}
            return len(uids) == 2 and first["metadata"]["uid"] not in uids

        await stage.until(replaced)
        after = {index(each): references(each) for each in await stage.pods("rs-0-worker-a")}
        assert after == before
        found = await stage.all(CLAIMS)
        assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in found} == claims


def index(pod: Any) -> str:
    return pod["metadata"]["labels"]["grove.io/podclique-pod-index"]


async def test_rs1_template_that_comes_late_is_used_when_it_comes(api: Api) -> None:
    async with world(api, nodes=10, free=10) as stage:
        await stage.apply(MANIFEST)

        async def says_why() -> bool:
            found = (await stage.get(SETS, "rs")).get("status", {}).get("lastErrors", [])
            return any(
                each["code"] == "ERR_SYNC_RESOURCE_CLAIMS"
                and "Cannot read ResourceClaimTemplate external" in each["description"]
                for each in found
            )

        await stage.until(says_why)
        # The set and the group are there; cliques, and so pods, would wait for claims in vain.
        early = ("-set-each", "-group-all", "-group-each")
        await until_claims(stage, [each for each in claims_of(0) if each.endswith(early)])
        assert await stage.all(CLIQUES) == []
        assert await stage.all(PODS) == []
        (external,) = [each for each in manifest(MANIFEST) if each["kind"] != "PodCliqueSet"]
        await stage.client.create(TEMPLATES, external, stage.namespace)
        await until_claims(stage, claims_of(0))
        await stage.until_running(3)

        async def says_nothing() -> bool:
            return "lastErrors" not in (await stage.get(SETS, "rs"))["status"]

        await stage.until(says_nothing)


async def test_rs1_claims_without_filters_reach_all_pods(api: Api) -> None:
    body: JsonObject = set_of(MANIFEST)
    template = body["spec"]["template"]
    template["resourceSharing"] = [{"name": "set-each", "scope": "PerReplica"}]
    template["podCliqueScalingGroups"][0].pop("resourceSharing")
    for each in template["cliques"]:
        each.pop("resourceSharing")
    async with world(api, nodes=10, free=10) as stage:
        await stage.apply(body)
        await stage.until_running(3)
        assert [references(each) for each in await stage.pods()] == [{"rs-0-set-each"}] * 3
