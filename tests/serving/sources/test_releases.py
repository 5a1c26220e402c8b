"""ConfigMaps of services on a cluster: with the CRD, and in the namespaced mode."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.kube import Client
from kilonova.serving.controllers.service.controller import build_service_controller
from kilonova.serving.settings import ServingSettings
from kilonova.serving.sources import ConfigMapTransport
from kilonova.serving.sources.releases import build_release_cache, build_release_controller
from tests.local.embedded_cluster import EVENTS, LoopClock, wait_for_condition
from tests.serving.serving_cluster import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    NAMESPACE,
    SECRETS,
    SERVICES,
    SETS,
    ServingCluster,
    build_context,
    serving_cluster,
)
from tests.workloads.workload_cluster import run_runnables

VALUES = "triton: {replicas: %d, image: triton}\nenvoy: {resources: null}\ngrafana: {enabled: true}"
CONVERSION, STATUS = "serving.kilonova.dev/conversion", "serving.kilonova.dev/status"


@asynccontextmanager
async def running(client: Client, settings: ServingSettings) -> AsyncGenerator[None]:
    """The controllers of ConfigMaps and of services."""
    context = build_context(client, LoopClock(), settings)
    cache = build_release_cache(context)
    controllers = [build_release_controller(context, cache), build_service_controller(context)]
    async with run_runnables([*context.caches.runnables, context.recorder, cache], controllers):
        yield


async def write(on: ServingCluster, values: str, mode: str = "cluster") -> None:
    metadata = {"name": "sonic", "labels": {"serving.kilonova.dev/service-config": mode}}
    body = {"metadata": metadata, "data": {"values.yaml": values}}
    await on.client.apply(CONFIG_MAPS, "sonic", body, NAMESPACE, field_manager="helm")


async def read_annotation(on: ServingCluster, name: str) -> Any:
    config_map = await on.get(CONFIG_MAPS, "sonic")
    return json.loads(config_map["metadata"].get("annotations", {}).get(name, "{}"))


async def test_a_cluster_with_the_crd_has_the_service_of_a_config_map() -> None:
    async with (
        serving_cluster(controllers=False) as on,
        running(on.cluster.client("serving"), ServingSettings()),
    ):
        await write(on, VALUES % 2)
        await wait_for_condition(lambda: has_replicas(on, 2))
        await wait_for_condition(lambda: has_conversion(on))
        conversion = await read_annotation(on, CONVERSION)
        assert conversion["problems"] == []
        assert len(conversion["warnings"]) == 1

        await write(on, VALUES % 3)
        await wait_for_condition(lambda: has_replicas(on, 3))

        await write(on, "triton: {replicas: x}")
        await wait_for_condition(lambda: has_problem(on, "triton.replicas"))
        assert await has_replicas(on, 3)

        # The service belongs to the ConfigMap: it comes back, and goes with it.
        await on.client.delete(INFERENCE_SERVICES, "sonic", NAMESPACE)
        await write(on, VALUES % 1)
        await wait_for_condition(lambda: has_replicas(on, 1))
        await on.client.delete(CONFIG_MAPS, "sonic", NAMESPACE)
        await wait_for_condition(lambda: is_gone(on))


async def test_what_the_api_server_refuses_is_told() -> None:
    service = "kind: InferenceService\nmetadata: {name: sonic}\nspec: {servers: []}"
    async with (
        serving_cluster(controllers=False) as on,
        running(on.cluster.client("serving"), ServingSettings()),
    ):
        labels = {"serving.kilonova.dev/service-config": "cluster"}
        body = {"metadata": {"name": "sonic", "labels": labels}, "data": {"service.yaml": service}}
        await on.client.create(CONFIG_MAPS, body, NAMESPACE)
        await wait_for_condition(lambda: has_problem(on, "spec.servers"))


async def test_a_service_of_another_owner_is_left_alone() -> None:
    async with serving_cluster(controllers=False) as on:
        await on.create("sonic")
        async with running(on.cluster.client("serving"), ServingSettings()):
            await write(on, VALUES % 2)
            await wait_for_condition(lambda: has_problem(on, "exists already"))
            service = await on.get(INFERENCE_SERVICES, "sonic")
            assert service["spec"]["servers"][0]["name"] == "model"


async def test_the_namespaced_mode_serves_with_deployments_and_no_kind_of_ours() -> None:
    async with serving_cluster(controllers=False) as on:
        client = on.cluster.client("serving").wrap_transport(
            lambda transport: ConfigMapTransport(transport, NAMESPACE)
        )
        async with running(client, ServingSettings(namespace=NAMESPACE)):
            await write(on, VALUES % 2, "true")
            await wait_for_condition(lambda: has_status(on, ready=2), within=60)
            assert not await on.list_objects(INFERENCE_SERVICES)
            assert not await on.list_objects(SETS)
            servers = await on.get(DEPLOYMENTS, "sonic-triton")
            gateway = await on.get(DEPLOYMENTS, "sonic-gateway")
            for each in (
                servers,
                gateway,
                await on.get(SERVICES, "sonic"),
                await on.get(SECRETS, "sonic-gateway"),
            ):
                (owner,) = each["metadata"]["ownerReferences"]
                assert (owner["kind"], owner["name"]) == ("ConfigMap", "sonic")
            assert servers["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]

            await write(on, VALUES % 3, "true")
            await wait_for_condition(lambda: has_status(on, ready=3), within=60)

            await wait_for_condition(lambda: has_event(on, "ConfigMap", "SuccessfulCreate"))
            dashboards = await on.get(CONFIG_MAPS, "sonic-dashboards")
            assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
            assert len(dashboards["data"]) == 2
            await write(on, (VALUES % 3).replace("grafana: {enabled: true}", ""), "true")
            await wait_for_condition(lambda: has_no_dashboards(on))


async def has_replicas(on: ServingCluster, replicas: int) -> bool:
    found = await on.get(SETS, "sonic-triton")
    return found is not None and found["spec"]["replicas"] == replicas


async def has_problem(on: ServingCluster, words: str) -> bool:
    return any(
        words in each for each in (await read_annotation(on, CONVERSION)).get("problems", ())
    )


async def has_conversion(on: ServingCluster) -> bool:
    return bool(await read_annotation(on, CONVERSION))


async def has_no_dashboards(on: ServingCluster) -> bool:
    return await on.get(CONFIG_MAPS, "sonic-dashboards") is None


async def has_event(on: ServingCluster, kind: str, reason: str) -> bool:
    found = await on.client.list(EVENTS, NAMESPACE)
    return any(
        (each["reason"], each["involvedObject"]["kind"], each["involvedObject"]["name"])
        == (reason, kind, "sonic")
        for each in found.items
    )


async def is_gone(on: ServingCluster) -> bool:
    return await on.get(INFERENCE_SERVICES, "sonic") is None


async def has_status(on: ServingCluster, ready: int) -> bool:
    status = await read_annotation(on, STATUS)
    return (status.get("phase"), status.get("ready")) == ("Ready", ready)
