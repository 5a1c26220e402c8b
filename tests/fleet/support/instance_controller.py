"""Runs InferenceEngineDeployments in a test, as their controller does, without pods."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kilonova.api.inference_engine import names
from kilonova.kube import AlreadyExists, Client, KubeError, NotFound, unstructured_resource

DEPLOYMENTS = unstructured_resource(
    "inference-engine.groq.io",
    "v1",
    "inferenceenginedeployments",
    "InferenceEngineDeployment",
    True,
)
INSTANCES = unstructured_resource(
    "inference-engine.groq.io", "v1", "inferenceengineinstances", "InferenceEngineInstance", True
)
_STARTUP_STEPS = 2


class FakeInstanceController:
    """At most `capacity` instances have a place; the others fail. Instances of a release in
    `failing` degrade."""

    name = "fake instances"

    def __init__(
        self,
        client: Client,
        capacity: int = 100,
        interval: float = 1.0,
        namespace: str | None = None,
    ) -> None:
        self._namespace = namespace
        self.capacity = capacity
        self.failing: set[str] = set()
        self._client = client
        self._interval = interval
        self._steps: dict[str, int] = {}
        self._numbers = 0

    async def run(self) -> None:
        """Step until cancelled."""
        while True:
            # The API may be away, or something may have been deleted meanwhile.
            with suppress(KubeError):
                await self.step()
            await asyncio.sleep(self._interval)

    async def step(self) -> None:
        deployments = (await self._client.list(DEPLOYMENTS, self._namespace)).items
        instances = (await self._client.list(INSTANCES, self._namespace)).items
        owned: dict[tuple[str, str], list[Any]] = {}
        for each in instances:
            metadata = each["metadata"]
            key = (metadata["namespace"], metadata["labels"][names.DEPLOYMENT])
            owned.setdefault(key, []).append(each)
        known = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in deployments}
        for key, found in owned.items():
            if key not in known:
                for each in found:
                    await self._delete(each)
        for each in deployments:
            metadata = each["metadata"]
            await self._reconcile(each, owned.get((metadata["namespace"], metadata["name"]), []))

    async def _reconcile(self, deployment: Mapping[str, Any], found: list[Any]) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        release, replicas = spec.get("release", ""), spec.get("replicas", 1)
        old = [each for each in found if each["spec"].get("release") != release]
        current = [each for each in found if each not in old]
        for each in old:
            await self._delete(each)
        # Those that failed go first.
        current.sort(key=lambda each: _phase(each) != "Ready")
        for each in current[replicas:]:
            await self._delete(each)
        current = current[:replicas]
        for _ in range(replicas - len(current)):
            current.append(await self._create(deployment))
        ready = failed = 0
        for index, each in enumerate(current):
            name = each["metadata"]["name"]
            self._steps[name] = self._steps.get(name, 0) + 1
            phase = "Starting" if self._steps[name] < _STARTUP_STEPS else "Ready"
            if release in self.failing and phase == "Ready":
                phase = "Degraded"
            if index >= self.capacity:
                phase = "Failed"
            ready += phase == "Ready"
            failed += phase == "Failed"
            if _phase(each) != phase:
                await self._patch(INSTANCES, each, {"phase": phase})
        status = {
            "observedGeneration": metadata["generation"],
            "replicas": len(current),
            "readyReplicas": ready,
            "updatedReplicas": len(current),
            "unallocatable": failed,
            "additionalReplicas": max(0, self.capacity - len(current)),
        }
        if {name: deployment.get("status", {}).get(name) for name in status} != status:
            await self._patch(DEPLOYMENTS, deployment, status)

    async def _create(self, deployment: Mapping[str, Any]) -> Any:
        metadata = deployment["metadata"]
        self._numbers += 1
        body = {
            "metadata": {
                "name": f"{metadata['name']}-{self._numbers}",
                "labels": {names.DEPLOYMENT: metadata["name"]},
            },
            "spec": {
                **deployment["spec"]["template"],
                "release": deployment["spec"].get("release", ""),
            },
        }
        try:
            return await self._client.create(INSTANCES, body, metadata["namespace"])
        except AlreadyExists:
            return await self._create(deployment)

    async def _delete(self, instance: Mapping[str, Any]) -> None:
        metadata = instance["metadata"]
        try:
            await self._client.delete(INSTANCES, metadata["name"], metadata["namespace"])
        except NotFound:
            return

    async def _patch(self, resource: Any, found: Mapping[str, Any], status: Any) -> None:
        metadata = found["metadata"]
        await self._client.patch(
            resource,
            metadata["name"],
            {"status": status},
            metadata["namespace"],
            subresource="status",
        )


def _phase(instance: Mapping[str, Any]) -> str:
    return instance.get("status", {}).get("phase", "Pending")
