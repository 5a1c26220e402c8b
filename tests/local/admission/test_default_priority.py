"""Which priority a pod gets that names no class, as classes come and go."""

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import PODS, pod, running

CLASSES = plain("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)

pytestmark = pytest.mark.looptime


async def test_the_least_default_class_counts_as_long_as_it_is_there() -> None:
    async with running() as cluster:
        client = cluster.client("test")

        async def given(name: str) -> tuple[int, str]:
            spec = (await client.create(PODS, pod(name), "default"))["spec"]
            return spec["priority"], spec.get("priorityClassName", "")

        assert await given("a") == (0, "")
        for name, value in (("high", 9), ("low", 5)):
            wanted = {"metadata": {"name": name}, "value": value, "globalDefault": True}
            await client.create(CLASSES, wanted)
            assert await given(name) == (value, name)
        await client.delete(CLASSES, "low")
        assert await given("b") == (9, "high")
        await client.delete(CLASSES, "high")
        assert await given("c") == (0, "")
