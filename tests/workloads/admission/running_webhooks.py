"""A server that calls the operator's webhooks, during the context."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, Client, NotFound, unstructured_resource
from kilonova.kube.admission import AdmissionServer, FolderSource
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from kilonova.workloads.admission import (
    CONFIGURATION_NAME,
    UrlEndpoint,
    build_handlers,
    install_webhooks,
)
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.admission.set_manifests import pod_clique_set, set_field
from tests.workloads.scenarios.support.scenario_api import ScenarioApi

_SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)


@asynccontextmanager
async def running_webhooks(
    api: ScenarioApi, folder: Path, settings: OperatorSettings | None = None
) -> AsyncGenerator[Client]:
    """A client of a server that calls our webhooks."""
    chosen = settings or OperatorSettings()
    async with api.client() as client:
        await install_definitions(client)
        published = asyncio.Event()

        async def publish(ca_pem: bytes) -> None:
            await install_webhooks(client, UrlEndpoint(url), ca_pem, chosen)
            published.set()

        server = AdmissionServer(
            build_handlers(client, chosen, operator="the-operator"),
            FolderSource(folder, ["127.0.0.1"]),
            host="127.0.0.1",
            port=0,
            publish=publish,
        )
        url = f"https://127.0.0.1:{server.bind()}"
        running = asyncio.create_task(server.run())
        try:
            async with asyncio.timeout(20):
                await published.wait()
                await _wait_until_called(client, api.namespace)
            yield client
        finally:
            for resource in WEBHOOK_CONFIGURATIONS:
                with suppress(NotFound):
                    await client.delete(resource, CONFIGURATION_NAME)
            server.stop()
            await running


async def _wait_until_called(client: Client, namespace: str) -> None:
    """Wait until the API server has noticed both configurations.

    Once both webhooks are called, the set is rejected for an invalid value, not for a missing one.
    """
    own = set_field(pod_clique_set(), "metadata.namespace", namespace)
    rejected = set_field(own, "spec.template.cliques[0].spec.minAvailable", 9)
    while True:
        try:
            await client.create(_SETS, rejected, namespace, dry_run=True)
        except ApiStatusError as error:
            if "denied the request" in error.message and "Required" not in error.message:
                return
        await asyncio.sleep(0.05)
