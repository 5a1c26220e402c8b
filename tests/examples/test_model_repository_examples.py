"""The examples of model repositories: what their servers' pods see."""

from pathlib import Path
from typing import Any

import yaml

from tests.local.embedded_cluster import virtual_time, wait_for_condition
from tests.serving.serving_cluster import (
    CLAIMS,
    INFERENCE_SERVICES,
    NAMESPACE,
    SETS,
    ServingCluster,
    serving_cluster,
)

pytestmark = virtual_time

EXAMPLES = Path(__file__).parents[2] / "examples" / "serving" / "repositories"
KINDS = {each.kind: each for each in (CLAIMS, INFERENCE_SERVICES)}

VOLUMES: dict[str, tuple[str, str]] = {
    "directory": ("hostPath", "/models"),
    "nfs": ("nfs", "/models"),
    "volume-claim": ("persistentVolumeClaim", "/models"),
    "cvmfs": ("persistentVolumeClaim", "/cvmfs"),
    "s3": ("emptyDir", "/models"),
    "hugging-face": ("emptyDir", "/models"),
    "placement": ("nfs", "/models"),
}
"""The kind of volume of each example, and where servers see it."""


def read_example(name: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


async def get_pod_spec(cluster: ServingCluster, service: Any) -> Any:
    """The pods of a service's servers."""
    group = service["spec"]["servers"][0]["name"]
    name = f"{service['metadata']['name']}-{group}"

    async def is_created() -> bool:
        return await cluster.get(SETS, name) is not None

    await wait_for_condition(is_created)
    found = await cluster.get(SETS, name)
    return found["spec"]["template"]["cliques"][0]["spec"]["podSpec"]


def test_every_example_is_here() -> None:
    assert sorted(VOLUMES) == sorted(each.stem for each in EXAMPLES.glob("*.yaml"))


async def test_servers_of_each_example_see_their_models() -> None:
    async with serving_cluster() as cluster:
        for name, (kind, path) in VOLUMES.items():
            bodies = read_example(name)
            for body in bodies:
                await cluster.client.create(KINDS[body["kind"]], body, NAMESPACE)
            spec = await get_pod_spec(cluster, bodies[-1])
            [volume] = [each for each in spec["volumes"] if each["name"] == "models"]
            assert kind in volume, name
            [mount] = [
                each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "models"
            ]
            assert (mount["mountPath"], mount["readOnly"]) == (path, True), name
            downloads = [each["name"] for each in spec.get("initContainers", [])]
            assert downloads == (["download-models"] if kind == "emptyDir" else []), name


async def test_claim_of_cvmfs_outlives_its_service() -> None:
    async with serving_cluster() as cluster:
        [body] = read_example("cvmfs")
        await cluster.client.create(INFERENCE_SERVICES, body, NAMESPACE)

        async def exists() -> bool:
            return await cluster.get(CLAIMS, "cvmfs") is not None

        await wait_for_condition(exists)
        claim = await cluster.get(CLAIMS, "cvmfs")
        assert claim["spec"]["storageClassName"] == "cvmfs"
        assert claim["spec"]["accessModes"] == ["ReadOnlyMany"]
        await cluster.client.delete(INFERENCE_SERVICES, "cvmfs", NAMESPACE)

        async def is_gone() -> bool:
            return await cluster.get(SETS, "cvmfs-gpu") is None

        await wait_for_condition(is_gone)
        assert await exists()


async def test_servers_with_placed_models_start_without_them() -> None:
    async with serving_cluster() as cluster:
        [body] = read_example("placement")
        await cluster.client.create(INFERENCE_SERVICES, body, NAMESPACE)
        spec = await get_pod_spec(cluster, body)
        assert "--model-control-mode=explicit" in spec["containers"][0]["args"]
