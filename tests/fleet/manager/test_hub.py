"""How the specs of different hubs are compared."""

from typing import Any

import msgspec
import pytest

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment, Release
from kilonova.fleet.manager.hub import HubObject, encode_spec

METADATA = {"name": "it", "namespace": "default", "uid": "1", "resourceVersion": "1"}


def build(kind: type[HubObject], spec: Any) -> HubObject:
    return msgspec.json.decode(msgspec.json.encode({"metadata": METADATA, "spec": spec}), type=kind)


@pytest.mark.parametrize(
    ("kind", "short", "defaulted"),
    [
        (
            Release,
            {"model": "m", "targetAgents": 2},
            {
                "model": "m",
                "targetAgents": 2,
                "build": "",
                "config": {},
                "allocation": {"strategy": "tightest"},
                "repair": {"policy": "ladder", "deadline": "5m"},
            },
        ),
        (
            Deployment,
            {"release": "v1", "placements": [{"cluster": "a", "min": 1}], "spread": {}},
            {
                "release": "v1",
                "placements": [{"cluster": "a", "min": 1, "weight": 1}],
                "spread": {"by": "region", "maxSkew": 1},
                "rollout": {"bakeTime": "5m", "autoRollback": True, "progressDeadline": "30m"},
                "failover": {"after": "5m", "maxConcurrent": 5},
                "mask": [],
            },
        ),
        (Cluster, {}, {"region": "", "weight": 100, "cordoned": False}),
    ],
)
def test_spec_is_the_same_with_and_without_its_defaults(
    kind: type[HubObject], short: Any, defaulted: Any
) -> None:
    assert encode_spec(build(kind, defaulted)) == encode_spec(build(kind, short)) == short


def test_value_that_differs_from_its_default_is_kept() -> None:
    spec = {"release": "v1", "replicas": 0, "rollout": {"bakeTime": "5s", "autoRollback": False}}
    assert encode_spec(build(Deployment, spec)) == spec
