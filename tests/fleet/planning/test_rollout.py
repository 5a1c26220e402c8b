"""Rollouts: waves, bake time, verdict, rollback and masks."""

import pytest

from kilonova.api.inference_engine import Rollout, Wave
from tests.fleet.planning.simulated_fleet import SimulatedFleet, release

WAVES = Rollout(waves=(Wave(name="canary", clusters=("a",)),), bake_time="60s")


@pytest.fixture
def fleet() -> SimulatedFleet:
    fleet = SimulatedFleet({"a": 100, "b": 100, "c": 100})
    fleet.deploy(replicas=6, rollout=WAVES)
    fleet.run(300)
    assert fleet.status().history[0].health == "Healthy"
    assert fleet.ready() == 6
    return fleet


def releases(fleet: SimulatedFleet) -> dict[str, str]:
    return {each.cluster: each.release for each in fleet.status().clusters if each.desired}


def test_first_release_needs_no_waves() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100, "c": 100})
    fleet.deploy(replicas=6, rollout=WAVES)
    fleet.run(30)
    assert releases(fleet) == {"a": "v1", "b": "v1", "c": "v1"}


def test_waves_follow_each_other_after_the_bake_time(fleet: SimulatedFleet) -> None:
    fleet.deploy(release="v2")
    fleet.run(15)
    assert releases(fleet) == {"a": "v2", "b": "v1", "c": "v1"}
    assert fleet.status().current_wave == "canary"
    fleet.run(45)
    assert fleet.status().waves[0].phase == "Baking"
    assert releases(fleet)["b"] == "v1"
    fleet.run(75)
    assert releases(fleet) == {"a": "v2", "b": "v2", "c": "v2"}
    fleet.run(180)
    assert fleet.status().current_wave == ""
    assert fleet.status().history[0].health == "Healthy"
    assert {each.last_good_release for each in fleet.status().clusters} == {"v2"}
    assert fleet.reasons()[-1] == "RolloutCompleted"


def test_wave_of_clusters_that_do_not_exist_says_so(fleet: SimulatedFleet) -> None:
    waves = (Wave(name="canary", clusters=("aa", "zz")), Wave(name="second", clusters=("a",)))
    fleet.deploy(release="v2", rollout=Rollout(waves=waves, bake_time="60s"))
    fleet.run(15)
    canary, second, *_ = fleet.status().waves
    assert canary.message == "has no instances; cluster aa, zz does not exist"
    assert "does not exist" not in second.message
    assert fleet.reasons().count("ClusterNotFound") == 1


def test_failing_canary_is_rolled_back_and_others_never_get_it(fleet: SimulatedFleet) -> None:
    fleet.members["a"].failing_releases.add("v2")
    fleet.deploy(release="v2")
    seen: set[str] = set()
    for _ in range(60):
        fleet.step()
        seen.update(releases(fleet)[name] for name in ("b", "c"))
    assert seen == {"v1"}
    assert releases(fleet)["a"] == "v1"
    assert fleet.ready() == 6
    assert fleet.condition("Progressing") == ("False", "RolloutFailed")
    assert fleet.status().release == "v1"
    assert fleet.releases["v2"].status.health == "Failing"


def test_stuck_wave_fails_at_its_deadline_and_stops_without_rollback(
    fleet: SimulatedFleet,
) -> None:
    fleet.members["a"].stuck_releases.add("v2")
    rollout = Rollout(waves=WAVES.waves, auto_rollback=False, progress_deadline="120s")
    fleet.deploy(release="v2", rollout=rollout)
    fleet.run(200)
    assert fleet.status().waves[0].phase == "Failed"
    assert releases(fleet) == {"a": "v2", "b": "v1", "c": "v1"}
    assert fleet.condition("Paused") == ("True", "RolloutFailed")


def test_paused_rollout_starts_no_wave(fleet: SimulatedFleet) -> None:
    fleet.deploy(release="v2", rollout=Rollout(waves=WAVES.waves, bake_time="60s", paused=True))
    fleet.run(300)
    assert set(releases(fleet).values()) == {"v1"}
    fleet.deploy(rollout=WAVES)
    fleet.run(15)
    assert releases(fleet)["a"] == "v2"


def test_unreachable_cluster_is_not_waited_for(fleet: SimulatedFleet) -> None:
    fleet.members["c"].is_down = True
    fleet.run(60)
    fleet.deploy(release="v2")
    fleet.run(240)
    assert releases(fleet) == {"a": "v2", "b": "v2", "c": "v1"}
    fleet.members["c"].is_down = False
    fleet.run(30)
    assert releases(fleet)["c"] == "v2"


def test_masked_release_is_left_by_all_clusters_at_once(fleet: SimulatedFleet) -> None:
    fleet.deploy(release="v2")
    fleet.run(600)
    assert set(releases(fleet).values()) == {"v2"}
    fleet.members["b"].is_silent = True
    fleet.run(60)
    fleet.deploy(mask=("v2",))
    fleet.step()
    assert releases(fleet) == {"a": "v1", "b": "v1", "c": "v1"}
    assert fleet.condition("Progressing") == ("False", "ReleaseMasked")
    assert fleet.releases["v2"].status.masked


def test_mask_wins_in_a_frozen_fleet(fleet: SimulatedFleet) -> None:
    fleet.deploy(release="v2")
    fleet.run(600)
    for name in ("a", "b"):
        fleet.members[name].is_silent = True
    fleet.run(60)
    assert fleet.plan is not None
    assert fleet.plan.frozen
    fleet.deploy(mask=("v2",))
    fleet.step()
    assert set(releases(fleet).values()) == {"v1"}


def test_mask_without_another_release_leaves_instances_alone(fleet: SimulatedFleet) -> None:
    fleet.deploy(mask=("v1",))
    fleet.run(30)
    assert set(releases(fleet).values()) == {"v1"}
    assert fleet.ready() == 6
    assert fleet.condition("Progressing") == ("False", "NoUnmaskedRelease")


def test_unknown_release_is_reported_and_changes_nothing(fleet: SimulatedFleet) -> None:
    fleet.deploy(release="v9")
    fleet.run(30)
    assert set(releases(fleet).values()) == {"v1"}
    assert fleet.condition("Progressing") == ("False", "ReleaseNotFound")
    fleet.releases["v9"] = release("v9")
    fleet.run(15)
    assert releases(fleet)["a"] == "v9"


def test_failed_release_is_not_the_one_to_fall_back_to(fleet: SimulatedFleet) -> None:
    fleet.members["a"].failing_releases.add("v2")
    fleet.deploy(release="v2")
    fleet.run(120)
    fleet.releases["v3"] = release("v3")
    fleet.deploy(release="v3")
    fleet.run(600)
    fleet.deploy(mask=("v3",))
    fleet.run(15)
    assert set(releases(fleet).values()) == {"v1"}


def test_cluster_that_joins_during_a_wave_gets_the_stable_release(fleet: SimulatedFleet) -> None:
    fleet.configure("c", evacuated=True)
    fleet.run(120)
    fleet.deploy(release="v2")
    fleet.run(15)
    fleet.configure("c", evacuated=False)
    fleet.configure("b", evacuated=True)
    fleet.run(20)
    assert fleet.cell("c").release == "v1"


def test_duration_that_is_too_long_stops_no_other_deployment(fleet: SimulatedFleet) -> None:
    """The schema lets it pass, and not every hub has our webhook."""
    fleet.deploy("other", replicas=3, rollout=Rollout(bake_time="9999999999h"))
    fleet.run(60)
    assert sum(fleet.counts("other").values()) == 3
    fleet.deploy(replicas=7)
    fleet.run(30)
    assert sum(fleet.counts().values()) == 7
