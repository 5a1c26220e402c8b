"""Services from creation to deletion, in virtual time."""

import base64
from typing import Any

from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition
from tests.serving.serving_cluster import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    INGRESSES,
    NAMESPACE,
    PODS,
    SECRETS,
    SERVICES,
    SETS,
    ServingCluster,
    running_controllers,
    server_group,
    serving_cluster,
)

pytestmark = virtual_time

KINDS = (SETS, DEPLOYMENTS, SERVICES, SECRETS, BUDGETS, INGRESSES, CONFIG_MAPS)
BOUNDS = {"minReplicas": 0, "maxReplicas": 5}
WRITES_OF_A_START = 10
"""Two sets, Deployment, budget, Ingress, Services of the gateway and both groups, and the Secret:
its token first."""


async def list_versions(cluster: ServingCluster) -> dict[str, str]:
    """The versions of all objects of services."""
    return {
        f"{kind.plural}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for kind in (*KINDS, INFERENCE_SERVICES)
        for each in await cluster.list_objects(kind)
    }


async def count_replicas(cluster: ServingCluster, group: str = "model") -> int:
    return (await cluster.get(SETS, f"web-{group}"))["spec"]["replicas"]


def condition_of(status: Any, type_: str) -> Any:
    return next((each for each in status.get("conditions", []) if each["type"] == type_), {})


async def test_service_becomes_ready_and_says_where_it_is() -> None:
    async with serving_cluster() as cluster:
        await cluster.create()
        status = await cluster.wait_for_phase("Ready")
        assert (status["ready"], status["replicas"], status["gateways"]) == (1, 1, 1)
        assert status["url"] == "http://web.default.svc.cluster.local:8000"
        assert status["grpcAddress"] == "web.default.svc.cluster.local:8001"
        assert status["serviceAddress"] == "web.default.svc.cluster.local"
        assert condition_of(status, "Ready")["status"] == "True"
        assert condition_of(status, "ConfigurationAccepted")["status"] == "True"
        [pod] = await cluster.list_objects(PODS, role="server")
        assert pod["metadata"]["labels"]["serving.kilonova.dev/entry"] == "true"
        assert (
            pod["metadata"]["labels"]["kilonova.dev/workload"]
            == "InferenceService.serving.kilonova.dev_web"
        )
        events = await cluster.list_events()
        assert ("SuccessfulCreate", "Created PodCliqueSet web-model") in events
        assert "Ready" in {reason for reason, _ in events}


async def test_nothing_remains_of_a_deleted_service() -> None:
    async with serving_cluster() as cluster:
        await cluster.create(gateway={"replicas": 2, "ingress": {"host": "web.example.com"}})
        await cluster.wait_for_phase("Ready")
        assert await cluster.list_names(BUDGETS) == ["web-gateway"]
        assert await cluster.list_names(INGRESSES) == ["web"]
        await cluster.client.delete(INFERENCE_SERVICES, "web", NAMESPACE)

        async def is_empty() -> bool:
            kinds = (SETS, DEPLOYMENTS, SECRETS, BUDGETS, INGRESSES, PODS)
            found = [name for kind in kinds for name in await cluster.list_names(kind)]
            return not found and await cluster.list_names(SERVICES) == ["kubernetes"]

        # The gateways wait for the requests of their servers.
        await wait_for_condition(is_empty, within=120)


async def test_settled_service_is_not_written_again() -> None:
    async with serving_cluster(controllers=False) as cluster:
        async with running_controllers(cluster.cluster) as writes:
            await cluster.create(
                "web",
                server_group(replicas=2),
                server_group("other", autoscaling=BOUNDS),
                gateway={"replicas": 2, "ingress": {"host": "web.example.com"}},
            )
            await cluster.wait_for(lambda each: each.get("ready") == 3 and each["gateways"] == 2)
            await advance_time(10)
            paths = [each.path for each in writes if not each.path.endswith("/status")]
            assert len(paths) == WRITES_OF_A_START
            writes.clear()
            patch = {"metadata": {"annotations": {"seen": "yes"}}}
            await cluster.client.patch(INFERENCE_SERVICES, "web", patch, NAMESPACE)
            await advance_time(10)
            assert writes == []
        async with running_controllers(cluster.cluster) as writes:
            await advance_time(10)
            assert writes == []


async def test_changes_by_others_are_undone() -> None:
    async with serving_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_phase("Ready")
        await cluster.client.patch(SERVICES, "web", {"spec": {"selector": {"a": "b"}}}, NAMESPACE)
        patch = {"spec": {"replicas": 4}}
        await cluster.client.patch(DEPLOYMENTS, "web-gateway", patch, NAMESPACE)
        await cluster.client.delete(SERVICES, "web-model-servers", NAMESPACE)

        async def is_restored() -> bool:
            service = await cluster.get(SERVICES, "web")
            gateway = await cluster.get(DEPLOYMENTS, "web-gateway")
            servers = await cluster.get(SERVICES, "web-model-servers")
            role = service["spec"]["selector"].get("serving.kilonova.dev/role")
            return role == "gateway" and gateway["spec"]["replicas"] == 1 and servers is not None

        await wait_for_condition(is_restored)


async def test_what_is_left_out_of_the_spec_is_removed() -> None:
    async with serving_cluster() as cluster:
        await cluster.create(
            "web",
            server_group(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
            server_group("other"),
            gateway={"service": {"annotations": {"cloud": "internal"}}},
        )
        await cluster.wait_for_phase("Ready")
        await cluster.patch(
            {
                "servers": [server_group(env=[{"name": "B", "value": "2"}])],
                "gateway": {"service": {"annotations": None}},
            }
        )

        async def is_removed() -> bool:
            names = await cluster.list_names(SETS)
            found = await cluster.get(SETS, "web-model")
            pod = found["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
            service = await cluster.get(SERVICES, "web")
            return (
                names == ["web-model"]
                and [each["name"] for each in pod["containers"][0]["env"]] == ["B"]
                and "cloud" not in service["metadata"]["annotations"]
                and await cluster.get(SERVICES, "web-other-servers") is None
            )

        await wait_for_condition(is_removed)
        events = await cluster.list_events()
        assert ("SuccessfulDelete", "Deleted PodCliqueSet web-other") in events


async def test_number_of_servers_is_that_of_the_spec_without_autoscaling() -> None:
    async with serving_cluster() as cluster:
        await cluster.create("web", server_group(replicas=2))
        await cluster.wait_for(lambda each: each.get("ready") == 2)
        await cluster.patch({"servers": [server_group(replicas=0)]})
        status = await cluster.wait_for_phase("Idle")
        assert condition_of(status, "ServersReady")["reason"] == "NoServers"
        assert condition_of(status, "Ready")["status"] == "False"
        assert await count_replicas(cluster) == 0


async def test_autoscaled_number_of_servers_survives_updates() -> None:
    async with serving_cluster() as cluster:
        await cluster.create("web", server_group(replicas=1, autoscaling=BOUNDS))
        await cluster.wait_for_phase("Ready")
        await cluster.scale("model", 3)
        await cluster.wait_for(lambda each: each.get("ready") == 3)
        changed = server_group(replicas=1, autoscaling=BOUNDS, maxInFlight=7, args=["--verbose"])
        await cluster.patch({"servers": [changed]})
        await advance_time(20)
        assert await count_replicas(cluster) == 3
        found = await cluster.get(SETS, "web-model")
        args = found["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["args"]
        assert args[-1] == "--verbose"


async def test_service_that_is_scaled_to_zero_stays_there_and_is_ready() -> None:
    async with serving_cluster() as cluster:
        await cluster.create("web", server_group(replicas=0, autoscaling=BOUNDS))
        status = await cluster.wait_for_phase("Idle")
        assert condition_of(status, "Ready")["status"] == "True"
        assert condition_of(status, "ServersReady")["reason"] == "ScaledToZero"
        await cluster.patch({"gateway": {"accessLog": True}})
        async with running_controllers(cluster.cluster):
            await advance_time(20)
        assert await count_replicas(cluster) == 0


async def test_number_of_servers_of_a_paused_service_stays() -> None:
    async with serving_cluster() as cluster:
        await cluster.create("web", server_group(replicas=2), paused=True)
        await cluster.wait_for(lambda each: each.get("ready") == 2)
        await cluster.patch({"servers": [server_group(replicas=5)]})
        await advance_time(10)
        assert await count_replicas(cluster) == 2
        await cluster.patch({"paused": False})
        await cluster.wait_for(lambda each: each.get("ready") == 5)


async def test_token_of_gateways_is_kept() -> None:
    async with serving_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_phase("Ready")
        before = await cluster.get(SECRETS, "web-gateway")
        await cluster.patch({"gateway": {"replicas": 2}})
        async with running_controllers(cluster.cluster):
            await cluster.wait_for(lambda each: each.get("gateways") == 2)
        after = await cluster.get(SECRETS, "web-gateway")
        assert after["data"] == before["data"]
        assert len(base64.b64decode(after["data"]["token"])) >= 32
        # It is a secret: no other object shows it.
        token = base64.b64decode(after["data"]["token"]).decode()
        for kind in (SETS, DEPLOYMENTS, SERVICES, INFERENCE_SERVICES):
            assert token not in str(await cluster.list_objects(kind))


async def test_deleted_secret_is_made_again_and_gateways_are_replaced() -> None:
    async with serving_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_phase("Ready")
        before = await cluster.get(SECRETS, "web-gateway")
        [gateway] = await cluster.list_names(PODS, role="gateway")
        await cluster.client.delete(SECRETS, "web-gateway", NAMESPACE)

        async def is_replaced() -> bool:
            found = await cluster.get(SECRETS, "web-gateway")
            if found is None or "bootstrap.yaml" not in found["data"]:
                return False
            others = await cluster.list_names(PODS, role="gateway")
            return found["data"] != before["data"] and gateway not in others

        await wait_for_condition(is_replaced, within=120)


async def test_static_configuration_is_followed_and_a_missing_one_is_reported() -> None:
    async with serving_cluster() as cluster:
        await cluster.create(gateway={"staticConfig": {"name": "envoy"}})
        status = await cluster.wait_for(
            lambda each: condition_of(each, "ConfigurationAccepted").get("status") == "False"
        )
        condition = condition_of(status, "ConfigurationAccepted")
        assert condition["reason"] == "ConfigMapMissing"
        assert "spec.gateway.staticConfig: ConfigMap envoy does not exist" in condition["message"]
        assert await cluster.get(DEPLOYMENTS, "web-gateway") is None

        config = {"metadata": {"name": "envoy"}, "data": {"envoy.yaml": "one"}}
        await cluster.client.create(CONFIG_MAPS, config, NAMESPACE)
        await cluster.wait_for_phase("Ready")
        assert await read_configuration(cluster) == "one"
        [first] = await cluster.list_names(PODS, role="gateway")
        patch = {"data": {"envoy.yaml": "two"}}
        await cluster.client.patch(CONFIG_MAPS, "envoy", patch, NAMESPACE)

        async def is_replaced() -> bool:
            names = await cluster.list_names(PODS, role="gateway")
            return first not in names and await read_configuration(cluster) == "two"

        await wait_for_condition(is_replaced, within=120)
        # Without it, gateways that run go on.
        await cluster.client.delete(CONFIG_MAPS, "envoy", NAMESPACE)
        status = await cluster.wait_for(
            lambda each: condition_of(each, "ConfigurationAccepted")["status"] == "False"
        )
        assert status["gateways"] == 1
        assert await read_configuration(cluster) == "two"


async def read_configuration(cluster: ServingCluster) -> str:
    secret = await cluster.get(SECRETS, "web-gateway")
    return base64.b64decode(secret["data"]["bootstrap.yaml"]).decode()


async def test_objects_of_others_are_left_alone_and_named() -> None:
    async with serving_cluster() as cluster:
        port = {"port": 80}
        foreign = {"metadata": {"name": "web"}, "spec": {"ports": [port], "selector": {"a": "b"}}}
        await cluster.client.create(SERVICES, foreign, NAMESPACE)
        await cluster.create()
        status = await cluster.wait_for(
            lambda each: condition_of(each, "ConfigurationAccepted").get("status") == "False"
        )
        condition = condition_of(status, "ConfigurationAccepted")
        assert condition["reason"] == "NameTaken"
        assert "Service web belongs to another object" in condition["message"]
        assert (await cluster.get(SERVICES, "web"))["spec"]["selector"] == {"a": "b"}
        # All else is there, and the rest follows when the name is free.
        assert await cluster.list_names(SETS) == ["web-model"]
        await cluster.client.delete(SERVICES, "web", NAMESPACE)
        status = await cluster.wait_for_phase("Ready", within=120)
        await cluster.wait_for(
            lambda each: condition_of(each, "ConfigurationAccepted")["status"] == "True"
        )


async def test_kinds_that_the_cluster_lacks_are_reported_and_do_no_harm() -> None:
    async with serving_cluster() as cluster:
        await cluster.create(monitoring={"serviceMonitors": True})
        status = await cluster.wait_for_phase("Ready")
        condition = condition_of(status, "ConfigurationAccepted")
        assert (condition["status"], condition["reason"]) == ("False", "MonitorKindsMissing")
        assert "install the Prometheus operator" in condition["message"]


async def test_unschedulable_servers_are_explained() -> None:
    async with serving_cluster() as cluster:
        await cluster.create("web", server_group(resources={"limits": {"nvidia.com/gpu": 1}}))
        status = await cluster.wait_for(
            lambda each: "nvidia.com/gpu" in condition_of(each, "ServersReady").get("message", "")
        )
        assert status["phase"] == "Pending"
        assert condition_of(status, "ServersReady")["reason"] == "NoReadyServer"


async def test_server_of_several_pods_is_a_gang_with_one_entry() -> None:
    def clique(name: str, replicas: int) -> Any:
        spec = {"containers": [{"name": "main", "image": "img"}]}
        return {"name": name, "spec": {"roleName": name, "replicas": replicas, "podSpec": spec}}

    template = {"cliques": [clique("head", 1), clique("worker", 2)]}
    group = {"name": "llm", "podCliqueSetTemplate": template, "entryClique": "head", "drain": "1s"}
    async with serving_cluster() as cluster:
        await cluster.create("web", {**group, "replicas": 2, "protocol": "OpenAI"})
        status = await cluster.wait_for(lambda each: each.get("ready") == 2)
        assert status["servers"][0]["replicas"] == 2
        assert len(await cluster.list_names(PODS, server="llm")) == 6
        assert len(await cluster.list_names(PODS, entry="true")) == 2
        await advance_time(10)
        versions = await list_versions(cluster)
        async with running_controllers(cluster.cluster):
            await advance_time(10)
        assert await list_versions(cluster) == versions


async def test_removed_server_drains() -> None:
    slow = Fleet((NodeGroup("node", 4, start="100ms", stop="4s"),))
    async with serving_cluster(fleet=slow) as cluster:
        await cluster.create("web", server_group(replicas=2))
        await cluster.wait_for(lambda each: each.get("ready") == 2)
        await cluster.patch({"servers": [server_group(replicas=1)]})
        status = await cluster.wait_for(lambda each: each["servers"][0].get("draining") == 1)
        assert (status["ready"], status["replicas"]) == (1, 1)
        await cluster.wait_for(lambda each: not each["servers"][0].get("draining"))
