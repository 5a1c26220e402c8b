"""Examples of inference services: servers accept them, and those that run here do what they say."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.cli.install import install_definitions
from kilonova.kube.admission.field_errors import ValidationResult
from kilonova.serving.admission.validation import validate_service
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.examples.test_workload_examples import commands
from tests.harness.kubectl import Kubectl
from tests.serving.serving_cluster import INFERENCE_SERVICES

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "examples" / "serving"
EXAMPLES = sorted(DIRECTORY.glob("*.yaml"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path) -> Iterator[Kubectl]:
    """kubectl on a cluster whose pods run on this machine."""
    kilonova = Kilonova(tmp_path_factory.mktemp("home"))
    data = kilonova.home / "data"
    try:
        done = kilonova.detach(data, "--no-demo", "--process-node")
        assert done.code == 0, done.err
        yield Kubectl(kubectl_path, data / "kubeconfig", kilonova.home)
    finally:
        kilonova.stop_all()


def load(example: Path) -> Any:
    """The service of an example."""
    return yaml.safe_load(example.read_text())


async def test_servers_accept_examples(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)
        for each in EXAMPLES:
            body = load(each)
            assert validate_service(body) == ValidationResult(), each.name
            await client.create(INFERENCE_SERVICES, body, api.namespace, dry_run=True)


@pytest.mark.parametrize("name", ["canary.yaml", "service.yaml"])
def test_commands_of_an_example_work_as_written(here: Kubectl, name: str) -> None:
    script = commands(DIRECTORY / name)
    assert f"kubectl apply -f examples/serving/{name}" in script
    environment = here.build_environment({"KUBECONFIG": str(here.kubeconfig)})
    environment["PATH"] = f"{here.binary.parent}:{environment['PATH']}"
    assert shutil.which("curl", path=environment["PATH"])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "condition met" in done.stdout
    assert ("chat.completion" in done.stdout) is (name == "service.yaml")
    deleted = here(f"delete --timeout=60s -f {DIRECTORY / name}")
    assert deleted.code == 0, deleted.err
