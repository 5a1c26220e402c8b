"""The fleet's examples: what kustomize makes of them, accepted by both servers."""

from pathlib import Path

import msgspec
import pytest

from kilonova.api.json import JsonObject
from kilonova.cli.install import install_definitions
from kilonova.fleet.admission.validation import validate_deployment
from tests.conftest import Api
from tests.harness.kubectl import Kubectl

FLEET = Path(__file__).parents[2] / "examples" / "fleet"
MASKED = {"base": [], "production": [], "incident": ["llama-2"]}
RELEASE = {"base": "llama-1", "production": "llama-2", "incident": "llama-2"}


def build(kubectl: Kubectl, folder: str) -> list[JsonObject]:
    done = kubectl(["kustomize", str(FLEET / folder)])
    assert done.code == 0, done.err
    return [msgspec.yaml.decode(each) for each in done.out.split("\n---\n")]


@pytest.mark.parametrize("folder", MASKED)
async def test_examples_are_accepted(api: Api, kubectl: Kubectl, folder: str) -> None:
    objects = build(kubectl, folder)
    async with api.client() as client:
        await install_definitions(client)
    kinds = {each["kind"] for each in objects}
    assert kinds == {"Namespace", "Cluster", "Release", "Deployment"}
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    assert deployment["spec"]["mask"] == MASKED[folder]
    assert deployment["spec"]["release"] == RELEASE[folder]
    result = validate_deployment(deployment, None)
    assert result.errors == ()
    clusters = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Cluster"}
    assert clusters["fra3"]["spec"].get("evacuated", False) == (folder == "incident")
    # In a namespace of the test, and without the objects that have none.
    for each in objects:
        if each["kind"] in ("Release", "Deployment"):
            each["metadata"]["namespace"] = api.namespace
            manifest = msgspec.json.encode(each).decode()
            done = kubectl(["apply", "--dry-run=server", "-f", "-"], stdin=manifest)
            assert done.code == 0, done.err
