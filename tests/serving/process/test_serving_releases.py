"""`deploy/serving-releases` on both servers: with its permissions, the service of a release of the
chart with mode=cluster is created from its ConfigMap."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import ServiceAccount
from tests.local.embedded_cluster import wait_for_condition
from tests.serving.serving_cluster import INFERENCE_SERVICES
from tests.serving.supersonic.helm_chart import CHART, EXAMPLES, run_helm
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig
from tests.workloads.process.test_deployed_operator import wait_until

MANIFESTS = Path(__file__).parents[3] / "deploy" / "serving-releases"
NAMESPACE, ACCOUNT = "kilonova-system", "kilonova-serving"


@pytest.fixture
def account(api: Api, kubectl: Kubectl) -> Iterator[ServiceAccount]:
    """The account of the applied manifests."""

    async def install() -> None:
        async with api.client() as client:
            await install_definitions(client)

    asyncio.run(install())
    done = kubectl(["apply", "-k", str(MANIFESTS)])
    assert done.code == 0, done.err
    found = ServiceAccount(api, NAMESPACE, ACCOUNT)
    wait_until(
        lambda: found.is_allowed("create", "serving.kilonova.dev", "inferenceservices", "team")
    )
    yield found
    done = kubectl(["delete", "-k", str(MANIFESTS), "--ignore-not-found"])
    assert done.code == 0, done.err


async def test_a_release_of_the_chart_becomes_a_service(
    api: Api, account: ServiceAccount, kubectl: Kubectl, tmp_path: Path
) -> None:
    deployment = kubectl(
        ["get", "deployment/kilonova-serving", "-n", NAMESPACE, "-o", "jsonpath={..args}"]
    )
    assert "--releases" in deployment.out
    values = next(each for each in EXAMPLES if each.stem == "geddes-cms")
    words = ("--namespace", api.namespace, "--values", str(values), "--set", "mode=cluster")
    kubeconfig = write_token_kubeconfig(api.access, tmp_path / "account", account.request_token())
    ports = ("--control-plane-port", "0", "--control-plane-http-port", "0", "--releases")
    with component_process("serving", kubeconfig, tmp_path, *ports) as process:
        run_helm(tmp_path, "install", "sonic", str(CHART), *words, kubeconfig=api.access.kubeconfig)
        async with api.client() as client:

            async def list_services() -> list[str]:
                found = await client.list(INFERENCE_SERVICES, api.namespace)
                return [each["metadata"]["name"] for each in found.items]

            async def is_created() -> bool:
                return await list_services() == ["sonic"]

            await wait_for_condition(is_created)
            service = await client.get(INFERENCE_SERVICES, "sonic", api.namespace)
            assert service["spec"]["limits"]["load"]["queueTime"] == "20ms"
            run_helm(
                tmp_path,
                *("uninstall", "sonic", "--namespace", api.namespace),
                kubeconfig=api.access.kubeconfig,
            )
        assert "forbidden" not in process.process.log.read_text().lower()
