"""The scheduler as it lives in the cluster of `kilonova up`.

It runs beside the cluster's own controllers, over a client without a socket, and serves pods that
name no scheduler too: the same parts as `kilonova run scheduler`.
"""

from collections.abc import Sequence

from kilonova.cli.embeddedsettings import SETTINGS
from kilonova.kube import Part
from kilonova.local.cluster import Cluster
from kilonova.scheduler.scheduler import build_scheduler

USER = "system:serviceaccount:kilonova-system:kilonova-scheduler"
"""As whom it acts: the account that it has where it is deployed."""


def scheduler_parts(cluster: Cluster) -> Sequence[Part]:
    """What runs in the cluster: caches and what decides and writes; its metrics are the API's."""
    clock = cluster.clock
    scheduler = build_scheduler(
        cluster.client(USER),
        SETTINGS,
        now=clock.now,
        monotonic=clock.monotonic,
        registry=cluster.metrics.registry_of("scheduler"),
        new_id=cluster.identities.token,
    )
    return [*scheduler.parts, *scheduler.leading]
