"""Effective requests of pods."""

import pytest

from kilonova.scheduler.convert.pods.members import effective_requests
from tests.scheduler.convert.wire_pods import wire_pod


@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu", "example.com/thing"])
def test_sum_of_maximum_requests_fits_into_64_bits(
    resource: str,
) -> None:
    container = {"name": "c", "resources": {"requests": {resource: "9223372036854775807"}}}
    sidecar = {**container, "restartPolicy": "Always"}
    spec = {"containers": [container] * 3, "initContainers": [sidecar, container]}
    assert 0 < effective_requests(wire_pod(spec))[resource] < 1 << 63
