"""Fields without effect are told of, with what to do."""

import msgspec
import pytest

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.admission.ineffective_fields import list_warnings

GROUP: JsonObject = {"name": "main", "runtime": "ModelServer"}
STATIC = {"staticConfig": {"name": "c"}}
RING = {"policy": "RingHash", "hash": [{"source": "Model"}]}


def build(group: JsonObject | None = None, **spec: object) -> InferenceServiceSpec:
    return msgspec.convert({"servers": [{**GROUP, **(group or {})}], **spec}, InferenceServiceSpec)


CASES = (
    (
        build(gateway={"loadBalancing": {"hash": [{"source": "Model"}]}}),
        "spec.gateway.loadBalancing.hash has no effect: the policy LeastRequest has no key; set "
        "RingHash or Maglev",
    ),
    (
        build(gateway={**STATIC, "accessLog": True}),
        "spec.gateway.accessLog has no effect: gateway.staticConfig replaces the whole "
        "configuration; do it there",
    ),
    (
        build(gateway={**STATIC, "loadBalancing": RING}),
        "spec.gateway.loadBalancing has no effect: gateway.staticConfig replaces the whole "
        "configuration; do it there",
    ),
    (
        build({"maxQueued": 1}),
        "spec.servers[0].maxQueued has no effect: without maxInFlight no request waits in the "
        "gateway; set it",
    ),
    (
        build(limits={"load": {"queueTime": "1s", "threshold": 5}}),
        "spec.limits.load.threshold has no effect without query: set it",
    ),
    (
        build(limits={"load": {"queueTime": "1s", "prometheus": "http://p:9090"}}),
        "spec.limits.load.prometheus has no effect without query: set it",
    ),
)


@pytest.mark.parametrize(("spec", "warning"), CASES)
def test_field_without_effect_is_told_of(spec: InferenceServiceSpec, warning: str) -> None:
    assert list(list_warnings(spec)) == [warning]


def test_fields_with_an_effect_are_not() -> None:
    full = build(
        {"maxQueued": 1, "maxInFlight": 1},
        gateway={"loadBalancing": RING, "accessLog": True},
        limits={"load": {"query": "up", "threshold": 1, "prometheus": "http://p:9090"}},
    )
    assert list(list_warnings(full)) == []
