"""`deploy/console` on both API servers: exact permissions of its service account."""

import json
from pathlib import Path

import aiohttp
import pytest
import yaml

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.console.console_page import TOKEN, ConsolePage
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import Permission, ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "kilonova-system"

READ_PERMISSIONS: list[Permission] = [
    *(
        (verb, "", plural, "")
        for verb in ("list", "watch")
        for plural in ("nodes", "pods", "events")
    ),
    ("get", "", "pods", "team"),
    ("get", "", "pods/log", "team"),
    ("watch", "apps", "deployments", ""),
    ("watch", "apps", "statefulsets", ""),
    ("watch", "batch", "jobs", ""),
    ("watch", "kgwe.nvidia.io", "gpuworkloads", ""),
    *(
        ("watch", "inference-engine.groq.io", plural, "")
        for plural in (
            "inferenceengineinstances",
            "inferenceenginedeployments",
            "deployments",
            "releases",
        )
    ),
    ("watch", "fleet.kilonova.dev", "clusters", ""),
    ("watch", "scheduler.grove.io", "podgangs", ""),
    ("watch", "serving.kilonova.dev", "inferenceservices", ""),
    ("watch", "grove.io", "podcliquesets", ""),
    ("watch", "grove.io", "podcliques", ""),
    ("watch", "scheduling.kilonova.dev", "queues", ""),
    ("list", "metrics.k8s.io", "nodes", ""),
    ("list", "scheduling.kilonova.dev", "reservations", ""),
]
ACTION_PERMISSIONS: list[Permission] = [
    *(
        (verb, "apps", resource, "team")
        for resource in ("deployments", "statefulsets")
        for verb in ("patch", "delete")
    ),
    ("patch", "apps", "deployments/scale", "team"),
    ("patch", "apps", "statefulsets/scale", "team"),
    ("patch", "batch", "jobs", "team"),
    ("delete", "batch", "jobs", "team"),
    ("patch", "grove.io", "podcliquesets/scale", "team"),
    ("patch", "grove.io", "podcliques/scale", "team"),
    ("patch", "", "nodes", ""),
    ("create", "", "pods/eviction", "team"),
    ("delete", "", "pods", "team"),
    ("delete", "grove.io", "podcliquesets", "team"),
    ("delete", "grove.io", "podcliques", "team"),
    ("delete", "scheduler.grove.io", "podgangs", "team"),
    ("patch", "serving.kilonova.dev", "inferenceservices", "team"),
    ("delete", "serving.kilonova.dev", "inferenceservices", "team"),
]
DENIED_PERMISSIONS: list[Permission] = [
    ("get", "", "secrets", NAMESPACE),
    ("list", "", "secrets", ""),
    ("get", "", "configmaps", "team"),
    ("create", "", "pods", "team"),
    ("create", "apps", "deployments", "team"),
    ("create", "batch", "jobs", "team"),
    ("patch", "apps", "deployments/status", "team"),
    ("create", "", "pods/exec", "team"),
    ("patch", "", "pods", "team"),
    ("delete", "", "nodes", ""),
    ("patch", "", "nodes/status", ""),
    ("patch", "grove.io", "podcliquesets", "team"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
]


@pytest.mark.parametrize(
    ("folder", "allow_actions"), [("console", False), ("console-actions", True)]
)
def test_service_account_has_exactly_its_permissions(
    api: Api, kubectl: Kubectl, folder: str, allow_actions: bool
) -> None:
    done = kubectl(["apply", "-k", str(DEPLOY / folder)])
    assert done.code == 0, done.err
    account = ServiceAccount(api, NAMESPACE, "kilonova-console")
    wait_until(
        lambda: all(
            account.is_allowed(*permission)
            for permission in (*READ_PERMISSIONS, *(ACTION_PERMISSIONS if allow_actions else ()))
        )
    )
    expected = {
        **dict.fromkeys(READ_PERMISSIONS, True),
        **dict.fromkeys(ACTION_PERMISSIONS, allow_actions),
        **dict.fromkeys(DENIED_PERMISSIONS, False),
    }
    assert {permission: account.is_allowed(*permission) for permission in expected} == expected
    command = ["get", "deployment", "kilonova-console", "-n", NAMESPACE, "-o", "json"]
    deployment = json.loads(kubectl(command).out)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert ("--allow-actions" in container["command"]) is allow_actions
    done = kubectl(["delete", "-k", str(DEPLOY / folder), "--ignore-not-found"])
    assert done.code == 0, done.err


async def test_deployed_role_can_list_everything_and_explain(
    api: Api, kubectl: Kubectl, tmp_path: Path
) -> None:
    async with api.client() as client:
        await install_definitions(client)
    done = kubectl(["apply", "-k", str(DEPLOY / "console")])
    assert done.code == 0, done.err
    account = ServiceAccount(api, NAMESPACE, "kilonova-console")
    wait_until(lambda: all(account.is_allowed(*permission) for permission in READ_PERMISSIONS))
    kubeconfig = write_token_kubeconfig(api.access, tmp_path / "account", account.request_token())
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with component_process(
        "console", kubeconfig, tmp_path, "--port", "0", "--token-file", str(file)
    ) as running:
        log = running.process.log.read_text()
        served = next(json.loads(line) for line in log.splitlines() if '"console"' in line)
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{served['port']}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            async with session.get(f"/?token={TOKEN}"), session.get("/api/stream") as reply:
                page = await ConsolePage(reply.content).wait_for_tables()
            query = {"namespace": api.namespace, "name": "missing"}
            async with session.get("/api/why", params=query) as reply:
                assert (reply.status, "no pod or gang" in await reply.text()) == (404, True)
        assert set(page.resets) == set(page.server_info["tables"])
        default = ["default-scheduler"] if api.server == "embedded" else []
        assert page.server_info["schedulers"] == [*default, "kilonova-scheduler"]
        log = running.process.log.read_text()
        assert "forbidden" not in log.lower()
        assert TOKEN not in log


def test_token_is_mounted_from_a_secret_outside_the_manifests() -> None:
    deployment = yaml.safe_load((DEPLOY / "console" / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][-2:] == ["--token-file", "/etc/kilonova-console/token"]
    assert {
        "name": "token",
        "secret": {"secretName": "kilonova-console", "defaultMode": 0o440},
    } in (pod["volumes"])
