"""Creates, patches and deletes the pods of a clique, and records events."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kilonova.api.grove import PodClique, names
from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, ApiStatusError, Client, Conflict, NotFound, PatchType
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart, raise_first_failure
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.workloads.keys import get_set_key
from kilonova.workloads.pods.classification import find_lost_labels, is_controlled_by
from kilonova.workloads.resources import CLIQUES, PODS, Pod

_UNGATE_PATCH: JsonObject = {"schedulingGates": [{"name": names.POD_GANG_GATE, "$patch": "delete"}]}
_RELEASE_PATCH: JsonObject = {"annotations": {names.STARTUP_RELEASED: "true"}}


@dataclass(frozen=True, slots=True)
class PodWriter:
    """Writes pods. Each method waits until the cache shows its writes, and raises the first error
    at the end.
    """

    client: Client
    events: EventRecorder
    expectations: Expectations[Pod]
    slow_start: SlowStart

    async def create(self, clique: PodClique, bodies: Sequence[JsonObject]) -> None:
        """Create pods with slow start: what rejects one likely rejects all of the set."""
        created: list[Pod] = []
        try:
            calls = [partial(self._create, clique, body, created) for body in bodies]
            await self.slow_start.run(get_set_key(clique.metadata), calls)
        except ApiStatusError as error:
            self.record_event(
                clique, "PodCreateFailed", f"Cannot create pods: {error.message}", warning=True
            )
            raise
        finally:
            if created:
                self.record_event(
                    clique, "PodCreateSuccessful", f"Created {_format_pod_names(created)}"
                )
                await self._wait_for_cache(created)

    async def delete(self, clique: PodClique, pods: Sequence[Pod]) -> None:
        """Delete pods concurrently."""
        results = await asyncio.gather(*map(self._delete, pods), return_exceptions=True)
        deleted = [pod for pod, result in zip(pods, results, strict=True) if result is None]
        if deleted:
            self.record_event(
                clique, "PodDeleteSuccessful", f"Deleted {_format_pod_names(deleted)}"
            )
            for known in (pod.metadata for pod in deleted):
                await self.expectations.wait_for_deletion((known.namespace, known.name), known.uid)
        failure = next((each for each in results if isinstance(each, ApiStatusError)), None)
        if failure is not None:
            message = f"Cannot delete pods: {failure.message}"
            self.record_event(clique, "PodDeleteFailed", message, warning=True)
        raise_first_failure(results)

    async def ungate_and_release(self, ungate: Sequence[Pod], release: Sequence[Pod]) -> None:
        """Remove the scheduling gate from some pods and release others; one patch per pod."""
        patches: dict[str, JsonObject] = {
            pod.metadata.name: {"spec": _UNGATE_PATCH} for pod in ungate
        }
        for pod in release:
            patches.setdefault(pod.metadata.name, {})["metadata"] = _RELEASE_PATCH
        pods = {pod.metadata.name: pod for pod in (*ungate, *release)}
        results = await asyncio.gather(
            *(self._patch(pod, patches[name]) for name, pod in pods.items()),
            return_exceptions=True,
        )
        await self._wait_for_cache(each for each in results if isinstance(each, Pod))
        raise_first_failure(results)

    def record_event(
        self, clique: PodClique, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Record an event about a clique."""
        known = clique.metadata
        reference = ObjectReference.to(CLIQUES, known.name, known.namespace, known.uid)
        self.events.event(reference, reason, message, warning=warning)

    async def _create(self, clique: PodClique, body: JsonObject, created: list[Pod]) -> None:
        namespace = clique.metadata.namespace
        try:
            created.append(await self.client.create(PODS, body, namespace))
        except AlreadyExists:
            # Created by an earlier attempt whose response was lost, or its labels were removed so
            # that the cache lacks it. A pod with another owner remains a conflict.
            existing = await self.client.get(PODS, body["metadata"]["name"], namespace)
            if not is_controlled_by(clique, existing):
                raise
            lost = find_lost_labels(existing, body["metadata"]["labels"])
            patched = (
                await self._patch(existing, {"metadata": {"labels": lost}}) if lost else existing
            )
            if patched is not None:
                created.append(patched)

    async def _delete(self, pod: Pod) -> None:
        known = pod.metadata
        try:
            await self.client.delete(PODS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return  # gone, or another pod of that name

    async def _patch(self, pod: Pod, patch: JsonObject) -> Pod | None:
        known = pod.metadata
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": known.uid}}
        try:
            return await self.client.patch(
                PODS, known.name, body, known.namespace, patch_type=PatchType.STRATEGIC
            )
        except (NotFound, Conflict):
            return None

    async def _wait_for_cache(self, pods: Iterable[Pod]) -> None:
        versions = [pod.metadata.resource_version for pod in pods]
        if versions:
            await self.expectations.wait_for_version(max(versions, key=int))


def _format_pod_names(pods: Sequence[Pod]) -> str:
    noun = "pod" if len(pods) == 1 else "pods"
    return f"{len(pods)} {noun}: {', '.join(pod.metadata.name for pod in pods)}"
