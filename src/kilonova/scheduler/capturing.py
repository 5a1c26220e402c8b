"""Takes a picture of a live cluster: lists what a scheduler would watch, and reads it as one does.

What only the memory of a running scheduler has is not in it: pods that it decided about and has not
bound yet still wait here, and what queues used in the past is not known.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Client, Forbidden, NotFound, Reflector, Resource, Store
from kilonova.scheduler.core.claimbook import Pool, PoolId
from kilonova.scheduler.deviceobjects import ResourceSlice
from kilonova.scheduler.nominations import recall_nominated
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.picture import Picture, picture_of
from kilonova.scheduler.reading.allocations import written_of
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.queues import spec_of
from kilonova.scheduler.reading.slices import pool_of
from kilonova.scheduler.scheduler import build_scheduler, scoring_of
from kilonova.scheduler.settings import Settings
from kilonova.scheduler.unserved import gated_pods, unserved_gangs, unserved_pods


class _PriorityClass(msgspec.Struct, rename="camel"):
    metadata: Metadata
    value: int = 0
    preemption_policy: str = ""


_PRIORITIES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, _PriorityClass
)


@dataclass(frozen=True, slots=True)
class Captured:
    """A picture, and kinds of which the cluster has none because it does not know them. Few know
    the PodGroups of others: that is nothing to tell."""

    picture: Picture
    unknown: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    unserved: Mapping[str, NotYet] = field(default_factory=dict[str, NotYet])
    """Pods that name a scheduler which does not serve them, or are gated."""


async def capture(
    client: Client,
    settings: Settings | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Captured:
    """A cluster as a scheduler that starts now would see it. Only reads."""
    settings = settings or Settings()
    scheduler = build_scheduler(client, settings, now=now)
    unknown: list[str] = []
    caches = scheduler.caches
    for cache in caches.all:
        of_others = cache in caches.groups
        if not await _fill(client, cache, may_lack=of_others) and not of_others:
            unknown.append(cache.resource.full_name)
    world = scheduler.world
    world.refresh()
    recall_nominated(world)
    world.refresh()
    pods = tuple(caches.pods.store.objects())
    by_key = {pod.key: pod for pod in pods}
    classes = await _priority_classes(client)
    picture = picture_of(
        world.cluster,
        world.waiting.values(),
        map(spec_of, caches.queues.store.objects()),
        settings.policy,
        now().timestamp(),
        scoring=scoring_of(settings.weights),
        not_yet={
            **world.not_yet,
            **unserved_gangs(world.not_yet, by_key.get, settings.serves),
        },
        pools=_pools(caches.slices.store),
        claims={
            claim.key: written
            for claim in caches.claims.store.objects()
            if (written := written_of(claim)) is not None
        },
        priorities={each.metadata.name: each.value for each in classes},
        never_preempting=(
            each.metadata.name for each in classes if each.preemption_policy == "Never"
        ),
    )
    return Captured(
        picture,
        tuple(unknown),
        pods,
        tuple(caches.gangs.store.objects()),
        {**unserved_pods(pods, settings.serves), **gated_pods(pods)},
    )


def _pools(slices: Store[ResourceSlice]) -> dict[PoolId, Pool]:
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for each in slices.objects():
        by_pool.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    pools = ((id, pool_of(some)) for id, some in by_pool.items())
    return {id: pool for id, pool in pools if pool is not None}


async def _fill(client: Client, reflector: Reflector[Any], *, may_lack: bool) -> bool:
    """Lists what a cache would hold; False if the cluster does not know the kind, or where it
    `may_lack`, shows none to us."""
    store = reflector.store
    try:
        listing = await client.list(reflector.resource, on_undecodable=lambda _: None)
    except (NotFound, Forbidden) as error:
        if isinstance(error, Forbidden) and not may_lack:
            raise
        store.replace({})
        return False
    store.replace({store.key_of(each): each for each in listing.items})
    return True


async def _priority_classes(client: Client) -> list[_PriorityClass]:
    """All PriorityClasses; those who may not look at them do without."""
    try:
        listing = await client.list(_PRIORITIES)
    except (Forbidden, NotFound):
        return []
    return list(listing.items)
