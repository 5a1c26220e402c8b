"""Which Deployments of the fleet are rejected, and why."""

from typing import Any

import pytest

from kilonova.fleet.admission.validation import validate_deployment


def deployment(name: str = "chat", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"release": "v1", "replicas": 4, **spec}}


VALID = {
    "the least": deployment(),
    "minima alone": {
        "metadata": {"name": "chat"},
        "spec": {"release": "v1", "placements": [{"cluster": "a", "min": 1}]},
    },
    "no bake time": deployment(rollout={"bakeTime": "0s"}),
    "waves": deployment(rollout={"waves": [{"name": "one", "clusters": ["a"]}]}),
}
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "name": (
        deployment("a" * 60),
        "metadata.name: Invalid value",
    ),
    "minima": (
        deployment(placements=[{"cluster": "a", "min": 3}, {"cluster": "b", "min": 2}]),
        "spec.replicas: Invalid value: 4: must not be less than the sum of the minima of "
        "spec.placements, 5",
    ),
    "placements of one cluster": (
        deployment(placements=[{"cluster": "a"}, {"cluster": "a"}]),
        'spec.placements: Duplicate value: "a": a cluster has one placement',
    ),
    "waves of one name": (
        deployment(
            rollout={
                "waves": [{"name": "one", "clusters": ["a"]}, {"name": "one", "clusters": ["b"]}]
            }
        ),
        'spec.rollout.waves[1].name: Duplicate value: "one"',
    ),
    "wave without clusters": (
        deployment(rollout={"waves": [{"name": "one"}]}),
        "spec.rollout.waves[0].clusters: Required value: name its clusters, or set clusterSelector",
    ),
    "name of the last wave": (
        deployment(rollout={"waves": [{"name": "remaining", "clusters": ["a"]}]}),
        'spec.rollout.waves[0].name: Invalid value: "remaining": is the name of the wave of the '
        "clusters that no other one has",
    ),
    "no time": (
        deployment(failover={"after": "0s"}),
        'spec.failover.after: Invalid value: "0s": must be greater than 0',
    ),
    "more than a duration can be": (
        deployment(rollout={"bakeTime": "99999999h"}),
        'spec.rollout.bakeTime: Invalid value: "99999999h": must be a duration',
    ),
}


@pytest.mark.parametrize("obj", VALID.values(), ids=VALID)
def test_valid_deployment(obj: dict[str, Any]) -> None:
    assert validate_deployment(obj, None).errors == ()


@pytest.mark.parametrize(("obj", "message"), INVALID.values(), ids=INVALID)
def test_invalid_deployment(obj: dict[str, Any], message: str) -> None:
    (error,) = validate_deployment(obj, None).errors
    assert f"{error.field}: {error.message}".startswith(message)


def test_masked_release_and_impossible_maximum_are_warned_about() -> None:
    obj = deployment(mask=["v1"], placements=[{"cluster": "a", "max": 2}])
    assert validate_deployment(obj, None).warnings == (
        "spec.mask has spec.release, v1: clusters run the newest release of the history that is "
        "not masked",
        "spec.replicas is 4, and spec.placements allow no more than 2",
    )


def test_object_that_is_not_changed_is_not_judged_again() -> None:
    obj = deployment("a" * 60)
    assert validate_deployment(obj, obj).errors == ()
