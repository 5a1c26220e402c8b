"""Making, changing and removing the pods of a clique, with the events that tell of it."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kilonova.api.grove import PodClique, names
from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, ApiStatusError, Client, Conflict, NotFound, PatchKind
from kilonova.kube.batches import Trust, raise_first
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.workloads.cliques.roster import is_own, lost_labels
from kilonova.workloads.keys import set_of
from kilonova.workloads.resources import CLIQUES, PODS, Pod

_UNGATED: JsonObject = {"schedulingGates": [{"name": names.GATE, "$patch": "delete"}]}
_RELEASED: JsonObject = {"annotations": {names.RELEASED: "true"}}


@dataclass(frozen=True, slots=True)
class Hands:
    """Each act waits until the cache shows what it did, and raises the first refusal at the end."""

    client: Client
    events: Recorder
    echo: Echo[Pod]
    trust: Trust

    async def create(self, clique: PodClique, bodies: Sequence[JsonObject]) -> None:
        """Make pods, few at first: what refuses one will likely refuse all of the set."""
        made: list[Pod] = []
        try:
            calls = [partial(self._create, clique, body, made) for body in bodies]
            await self.trust.start(set_of(clique.metadata), calls)
        except ApiStatusError as error:
            self.tell(clique, "PodCreateFailed", f"Cannot create pods: {error.message}", bad=True)
            raise
        finally:
            if made:
                self.tell(clique, "PodCreateSuccessful", f"Created {_listed(made)}")
                await self._seen(made)

    async def delete(self, clique: PodClique, pods: Sequence[Pod]) -> None:
        """Remove pods, all at once."""
        results = await asyncio.gather(*map(self._delete, pods), return_exceptions=True)
        deleted = [pod for pod, result in zip(pods, results, strict=True) if result is None]
        if deleted:
            self.tell(clique, "PodDeleteSuccessful", f"Deleted {_listed(deleted)}")
            for known in (pod.metadata for pod in deleted):
                await self.echo.of_deletion((known.namespace, known.name), known.uid)
        failure = next((each for each in results if isinstance(each, ApiStatusError)), None)
        if failure is not None:
            message = f"Cannot delete pods: {failure.message}"
            self.tell(clique, "PodDeleteFailed", message, bad=True)
        raise_first(results)

    async def let_go(self, ungate: Sequence[Pod], release: Sequence[Pod]) -> None:
        """Take our gate from some pods, tell others that they may start; both in one write."""
        patches: dict[str, JsonObject] = {pod.metadata.name: {"spec": _UNGATED} for pod in ungate}
        for pod in release:
            patches.setdefault(pod.metadata.name, {})["metadata"] = _RELEASED
        pods = {pod.metadata.name: pod for pod in (*ungate, *release)}
        results = await asyncio.gather(
            *(self._patch(pod, patches[name]) for name, pod in pods.items()),
            return_exceptions=True,
        )
        await self._seen(each for each in results if isinstance(each, Pod))
        raise_first(results)

    def tell(self, clique: PodClique, reason: str, message: str, *, bad: bool = False) -> None:
        """Tell people what happened to a clique."""
        known = clique.metadata
        about = Reference.to(CLIQUES, known.name, known.namespace, known.uid)
        self.events.event(about, reason, message, warning=bad)

    async def _create(self, clique: PodClique, body: JsonObject, made: list[Pod]) -> None:
        namespace = clique.metadata.namespace
        try:
            made.append(await self.client.create(PODS, body, namespace))
        except AlreadyExists:
            # By an earlier try whose answer was lost, or before somebody took the labels off by
            # which it is found; somebody else's pod stays in the way.
            there = await self.client.get(PODS, body["metadata"]["name"], namespace)
            if not is_own(clique, there):
                raise
            lost = lost_labels(there, body["metadata"]["labels"])
            patched = await self._patch(there, {"metadata": {"labels": lost}}) if lost else there
            if patched is not None:
                made.append(patched)

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
                PODS, known.name, body, known.namespace, kind=PatchKind.STRATEGIC
            )
        except (NotFound, Conflict):
            return None

    async def _seen(self, pods: Iterable[Pod]) -> None:
        versions = [pod.metadata.resource_version for pod in pods]
        if versions:
            await self.echo.of_version(max(versions, key=int))


def _listed(pods: Sequence[Pod]) -> str:
    noun = "pod" if len(pods) == 1 else "pods"
    return f"{len(pods)} {noun}: {', '.join(pod.metadata.name for pod in pods)}"
