"""When a hub seems to be that of a manager that does not lead."""

from datetime import UTC, datetime, timedelta

import pytest

from kilonova.api.fleet import Cluster, ClusterHealth, ClusterStatus
from kilonova.api.meta import Metadata
from kilonova.api.times import format_rfc3339
from kilonova.fleet.commands.hub_access import describe_staleness

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def cluster(health: ClusterHealth, seconds: float | None) -> Cluster:
    seen = None if seconds is None else format_rfc3339(NOW - timedelta(seconds=seconds))
    return Cluster(Metadata("a", "1", "1"), status=ClusterStatus(health=health, last_seen=seen))


@pytest.mark.parametrize(
    "clusters",
    [
        [],
        [cluster("Unknown", None)],
        [cluster("Healthy", 10)],
        [cluster("Healthy", 10), cluster("Healthy", 900)],
        [cluster("Lost", 900), cluster("Suspect", 900)],  # written by a manager that leads
    ],
)
def test_hub_that_is_written_to_is_not_stale(clusters: list[Cluster]) -> None:
    assert describe_staleness(clusters, NOW) == ""


def test_hub_whose_healthy_members_were_not_seen_for_long_is_stale() -> None:
    found = describe_staleness([cluster("Lost", 9000), cluster("Healthy", 300)], NOW)
    assert found.startswith("no manager has written to this hub for 5m: if the manager of another")
