"""The controller of PodGroups: one for each PodGang of a scheduler that wants them.

A PodGroup has the name of its gang, is owned by it, and goes with it. It is made again when
somebody deletes it, and changed back when somebody changes what is ours in it; the rest is left
alone. A PodGroup of that name that is somebody else's is left alone altogether.
"""

from typing import Any

import msgspec

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.kube import (
    UNMEASURED,
    AlreadyExists,
    ApiStatusError,
    Client,
    Comparison,
    Conflict,
    Controller,
    Instruments,
    Key,
    NotFound,
    Result,
)
from kilonova.kube.apply import narrowest_patch
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.workloads.backends.concerns import GangConcerns, scheduler_of
from kilonova.workloads.backends.kinds import OptionalKind
from kilonova.workloads.backends.mapping import Backend, Surroundings
from kilonova.workloads.caches import Caches
from kilonova.workloads.keys import set_of
from kilonova.workloads.resources import GANGS, Child

_WORKERS = 4
_AGAIN_SECONDS = 30.0
"""What is in the way may be without our label, and then nobody tells when it is gone."""


def build_pod_group_controllers(
    client: Client,
    caches: Caches,
    kind: OptionalKind[Child],
    backend: Backend,
    recorder: Recorder,
    instruments: Instruments = UNMEASURED,
) -> tuple[Controller, Controller]:
    """The one that keeps PodGroups, which begins once there can be some, and the one that tells
    gangs why they have none until then."""
    concerns = GangConcerns(caches, backend.name)
    keeper = _Keeper(client, caches, kind, backend, recorder)
    return (
        Controller(
            f"podgroups of {backend.name}",
            keeper.reconcile,
            [
                Comparison(caches.gangs, concerns.of_gang),
                Comparison(caches.sets, concerns.of_set),
                Comparison(caches.topologies, concerns.of_topology),
                Comparison(kind.objects, concerns.of_pod_group),
                Comparison(kind.definition, concerns.of_definition),
            ],
            workers=_WORKERS,
            instruments=instruments,
        ),
        Controller(
            f"absence of {kind.full_name}",
            keeper.tell_absence,
            [
                Comparison(caches.gangs, concerns.of_new_gang),
                Comparison(kind.definition, concerns.of_definition),
            ],
            instruments=instruments,
        ),
    )


class _Keeper:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        kind: OptionalKind[Child],
        backend: Backend,
        recorder: Recorder,
    ) -> None:
        self._client = client
        self._caches = caches
        self._kind = kind
        self._backend = backend
        self._recorder = recorder
        self._echo = Echo(kind.objects)

    async def reconcile(self, key: Key) -> Result | None:
        """One round of one gang."""
        gang, live = self._caches.gangs.store.get(key), self._kind.objects.store.get(key)
        if gang is None or gang.metadata.deletion_timestamp is not None:
            if live is not None and _is_of_a_gang(live):
                await self._delete(live)
            return None
        owner = set_of(gang.metadata)
        set_ = None if owner is None else self._caches.sets.store.get(owner)
        if scheduler_of(gang) != self._backend.name or set_ is None:
            return None
        mapped = self._backend.pod_group(gang, self._surroundings(gang, set_))
        if mapped.problem:
            self._tell(gang, mapped.problem)
        if mapped.body is None or await self._settle(gang, live, mapped.body):
            return None
        return Result(after=_AGAIN_SECONDS)

    async def tell_absence(self, key: Key) -> None:
        """Tell a gang that its scheduler's kind is not there."""
        gang = self._caches.gangs.store.get(key)
        if gang is not None and not self._kind.served:
            name = self._backend.name
            self._tell(gang, f"{self._kind.missing}: install {name}, and PodGroups will be made")

    def _surroundings(self, gang: PodGang, set_: PodCliqueSet) -> Surroundings:
        name = gang.metadata.annotations.get(names.TOPOLOGY_NAME, "")
        binding = self._caches.topologies.store.get(("", name))
        topologies = {} if binding is None else {name: binding}
        return Surroundings(set_, topologies, self._kind.spec_fields)

    async def _settle(self, gang: PodGang, live: Child | None, wanted: JsonObject) -> bool:
        """Whether the PodGroup is as it should be now; if not, something is in the way."""
        try:
            if live is None:
                live = await self._create(gang, wanted)
            return await self._correct(gang, live, wanted)
        except Conflict:
            raise
        except ApiStatusError as error:
            self._tell(gang, f"PodGroup {gang.metadata.name} cannot be written: {error.message}")
            raise

    async def _create(self, gang: PodGang, wanted: JsonObject) -> Child:
        known = gang.metadata
        body = narrowest_patch({}, wanted)  # all of it, but for the nulls
        try:
            made = await self._client.create(self._backend.pod_groups, body, known.namespace)
        except AlreadyExists:
            # By an earlier try, or before somebody took the labels off by which it is found.
            return await self._client.get(self._backend.pod_groups, known.name, known.namespace)
        await self._echo.of_version(made.metadata.resource_version)
        return made

    async def _correct(self, gang: PodGang, live: Child, wanted: JsonObject) -> bool:
        owner = live.metadata.controller
        if live.metadata.deletion_timestamp is not None:
            return False
        if owner is None or owner.uid != gang.metadata.uid:
            if _is_of_a_gang(live):
                await self._delete(live)  # of an earlier gang of this name
            else:
                self._tell(gang, f"PodGroup {live.metadata.name} is there, and is somebody else's")
            return False
        present: JsonObject = msgspec.json.decode(msgspec.json.encode(live), type=dict[str, Any])
        patch = narrowest_patch(present, self._backend.beside_others(wanted, live))
        if patch is None:
            return True
        known = live.metadata
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": known.uid}}
        try:
            changed = await self._client.patch(
                self._backend.pod_groups, known.name, body, known.namespace
            )
        except NotFound:
            return False
        await self._echo.of_version(changed.metadata.resource_version)
        return True

    async def _delete(self, live: Child) -> None:
        known = live.metadata
        if known.deletion_timestamp is not None:
            return
        try:
            await self._client.delete(
                self._backend.pod_groups, known.name, known.namespace, uid=known.uid
            )
        except (NotFound, Conflict):
            return

    def _tell(self, gang: PodGang, problem: str) -> None:
        known = gang.metadata
        about = Reference.to(GANGS, known.name, known.namespace, known.uid)
        self._recorder.event(about, self._backend.trouble, problem, warning=True)


def _is_of_a_gang(live: Child) -> bool:
    owner = live.metadata.controller
    return owner is not None and (owner.api_version, owner.kind) == (GANGS.api_version, GANGS.kind)
