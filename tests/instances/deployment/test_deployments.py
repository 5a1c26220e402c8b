"""Deployments of instances on the embedded cluster, in virtual time."""

import asyncio
from typing import Any

from kilonova.api.inference_engine import names
from kilonova.kube import unstructured_resource
from tests.instances.deployment.deployment_cluster import (
    DEPLOYMENTS,
    INSTANCES,
    RELEASES,
    REVISIONS,
    condition_of,
    deployment_cluster,
    template_of,
    wait_until,
)
from tests.local.embedded_cluster import virtual_time

QUOTAS = unstructured_resource("", "v1", "resourcequotas", "ResourceQuota", True)


@virtual_time
async def test_instances_are_created_with_labels_owner_and_template() -> None:
    async with deployment_cluster() as cluster:
        created = await cluster.create(queue=None, template=template_of("r1", queue="team"))
        status = await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)
        assert [(each["revision"], each["release"]) for each in status["history"]] == [(1, "r1")]
        found = await cluster.list_instances()
        assert len({each["metadata"]["name"] for each in found}) == 3
        for each in found:
            metadata = each["metadata"]
            assert metadata["name"].startswith("llama-")
            assert len(metadata["name"]) == len("llama-") + names.SUFFIX_LENGTH
            labels = metadata["labels"]
            assert labels[names.DEPLOYMENT] == "llama"
            assert labels[names.RELEASE] == "r1"
            assert labels["kilonova.dev/workload"] == "InferenceEngineDeployment_llama"
            assert metadata["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
            assert each["spec"]["queue"] == "team"
            assert each["spec"]["targetAgents"] == 4
        reasons = [reason for reason, _ in await cluster.list_events()]
        assert "SuccessfulCreate" in reasons
        assert "RolloutComplete" in reasons


@virtual_time
async def test_update_replaces_one_after_the_other_and_is_rolled_back_by_a_patch() -> None:
    async with deployment_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        least = 3

        async def is_updated_to(release: str) -> bool:
            nonlocal least
            least = min(least, len(await cluster.list_ready()))
            status = await cluster.get_status()
            reason = condition_of(status, "Progressing").get("reason")
            releases = await cluster.list_releases()
            return releases == [release] * 3 and reason == "NewRevisionAvailable"

        await cluster.release("r2")
        await wait_until(lambda: is_updated_to("r2"))
        assert least == 2
        await cluster.release("r1")
        await wait_until(lambda: is_updated_to("r1"))
        assert least == 2
        status = await cluster.get_status()
        assert [(each["revision"], each["release"]) for each in status["history"]] == [
            (3, "r1"),
            (2, "r2"),
        ]
        events = dict(await cluster.list_events())
        assert events["DeploymentRollback"] == (
            "Rolled back to revision 1, which is revision 3 now (release r1)"
        )


@virtual_time
async def test_update_without_a_place_stops_and_goes_on_after_a_rollback() -> None:
    async with deployment_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        cluster.engines.unplaceable.add("r2")
        await cluster.release("r2")
        status = await cluster.wait_for_reason("AllocationBlocked", names.ALLOCATION_FAILED)
        assert "2 outdated kept" in condition_of(status, "AllocationBlocked")["message"]
        # Until the deadline, and long after it, nothing more is given up.
        await cluster.wait_for_reason("Progressing", "ProgressDeadlineExceeded", within=3600)
        await asyncio.sleep(3600)
        assert await cluster.list_releases() == ["r1", "r1", "r2"]
        await cluster.release("r1")
        status = await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert await cluster.list_releases() == ["r1"] * 3
        assert condition_of(status, "AllocationBlocked")["status"] == "False"


@virtual_time
async def test_lost_instances_are_replaced_and_scale_sets_their_number() -> None:
    async with deployment_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for(lambda status: status["readyReplicas"] == 3)
        lost = (await cluster.list_instances())[0]["metadata"]
        await cluster.client.delete(INSTANCES, lost["name"], cluster.namespace)

        async def is_replaced() -> bool:
            uids = [each["metadata"]["uid"] for each in await cluster.list_ready()]
            return len(uids) == 3 and lost["uid"] not in uids

        await wait_until(is_replaced)
        await cluster.client.set_scale(DEPLOYMENTS, "llama", cluster.namespace, 5)
        await cluster.wait_for(lambda status: status["readyReplicas"] == 5)
        scale = await cluster.client.get_scale(DEPLOYMENTS, "llama", cluster.namespace)
        assert scale.status.replicas == 5
        assert scale.status.selector == "supernova.groq.io/deployment=llama"
        await cluster.client.set_scale(DEPLOYMENTS, "llama", cluster.namespace, 0)
        await cluster.wait_for(lambda status: status["replicas"] == 0)
        assert await cluster.list_instances() == []


@virtual_time
async def test_release_object_gives_the_template_once_it_exists() -> None:
    async with deployment_cluster() as cluster:
        body: Any = {
            "metadata": {"name": "llama"},
            "spec": {"replicas": 2, "release": "llama-11"},
        }
        await cluster.client.create(DEPLOYMENTS, body, cluster.namespace)
        status = await cluster.wait_for_reason("Progressing", "ReleaseNotFound")
        assert (
            "Release default/llama-11 does not exist"
            in (condition_of(status, "Progressing")["message"])
        )
        release = {"metadata": {"name": "llama-11"}, "spec": template_of("x", queue="team")}
        await cluster.client.create(RELEASES, release, cluster.namespace)
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        found = await cluster.list_instances()
        assert [each["spec"]["release"] for each in found] == ["llama-11"] * 2
        assert found[0]["spec"]["image"] == "engine:x"


@virtual_time
async def test_recreate_waits_until_outdated_instances_are_gone() -> None:
    async with deployment_cluster() as cluster:
        await cluster.create(strategy={"type": "Recreate"})
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        # Their pods terminate slowly.
        for each in await cluster.list_instances():
            body = {"metadata": {"finalizers": ["test.kilonova.dev/pods"]}}
            await cluster.client.patch(INSTANCES, each["metadata"]["name"], body, cluster.namespace)
        await cluster.release("r2")
        await cluster.wait_for(lambda status: status["replicas"] == 0)
        await asyncio.sleep(60)
        assert await cluster.list_instances() == []
        for each in (await cluster.client.list(INSTANCES, cluster.namespace)).items:
            body = {"metadata": {"finalizers": None}}
            await cluster.client.patch(INSTANCES, each["metadata"]["name"], body, cluster.namespace)
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert await cluster.list_releases() == ["r2"] * 3


@virtual_time
async def test_paused_changes_wait_and_go_on() -> None:
    async with deployment_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        await cluster.release("r2", paused=True)
        await cluster.wait_for_reason("Progressing", "DeploymentPaused")
        await asyncio.sleep(3600)
        assert await cluster.list_releases() == ["r1"] * 3
        await cluster.patch({"paused": False})
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert await cluster.list_releases() == ["r2"] * 3


@virtual_time
async def test_rejected_instances_are_reported_and_retried() -> None:
    async with deployment_cluster() as cluster:
        quota = {"count/inferenceengineinstances.inference-engine.groq.io": "2"}
        await cluster.client.create(
            QUOTAS,
            {"metadata": {"name": "few"}, "spec": {"hard": quota}},
            cluster.namespace,
        )
        await cluster.create()
        status = await cluster.wait_for_reason("ReplicaFailure", "FailedCreate")
        assert "exceeded quota" in condition_of(status, "ReplicaFailure")["message"]
        assert len(await cluster.list_instances()) == 2
        await cluster.client.delete(QUOTAS, "few", cluster.namespace)
        status = await cluster.wait_for_reason("Progressing", "NewRevisionAvailable")
        assert condition_of(status, "ReplicaFailure") == {}
        assert len(await cluster.list_instances()) == 3


@virtual_time
async def test_deleted_deployment_takes_instances_and_revisions_with_it() -> None:
    async with deployment_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for(lambda status: status["readyReplicas"] == 3)
        await cluster.client.delete(DEPLOYMENTS, "llama", cluster.namespace)

        async def nothing_is_left() -> bool:
            lists = [
                (await cluster.client.list(each, cluster.namespace)).items
                for each in (INSTANCES, REVISIONS)
            ]
            return lists == [[], []]

        await wait_until(nothing_is_left)
