"""The priority of pods without a class, as default classes are created and deleted."""

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import PODS, pod, run_cluster

CLASSES = unstructured_resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
)

pytestmark = pytest.mark.looptime


async def test_lowest_default_priority_class_applies() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")

        async def resulting_priority(name: str) -> tuple[int, str]:
            spec = (await client.create(PODS, pod(name), "default"))["spec"]
            return spec["priority"], spec.get("priorityClassName", "")

        assert await resulting_priority("a") == (0, "")
        for name, value in (("high", 9), ("low", 5)):
            expected = {"metadata": {"name": name}, "value": value, "globalDefault": True}
            await client.create(CLASSES, expected)
            assert await resulting_priority(name) == (value, name)
        await client.delete(CLASSES, "low")
        assert await resulting_priority("b") == (9, "high")
        await client.delete(CLASSES, "high")
        assert await resulting_priority("c") == (0, "")
