"""What a pod needs, from what its containers ask for."""

import pytest

from kilonova.scheduler.reading.pods import requests_of
from tests.scheduler.reading.wire_pods import wire_pod


@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu", "example.com/thing"])
def test_containers_that_ask_for_the_most_that_can_be_written_ask_for_a_number_of_64_bits(
    resource: str,
) -> None:
    container = {"name": "c", "resources": {"requests": {resource: "9223372036854775807"}}}
    sidecar = {**container, "restartPolicy": "Always"}
    spec = {"containers": [container] * 3, "initContainers": [sidecar, container]}
    assert 0 < requests_of(wire_pod(spec))[resource] < 1 << 63
