"""A server that asks the operator's webhooks, while inside."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, Client, NotFound, plain
from kilonova.kube.admission import AdmissionServer, FolderSource
from kilonova.kube.admission.configuration import CONFIGURATIONS
from kilonova.workloads.admission import NAME, AtUrl, build_handlers, install_webhooks
from kilonova.workloads.settings import Settings
from tests.conftest import Api
from tests.workloads.admission.written import pod_clique_set, with_value

_SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)


@asynccontextmanager
async def webhooks(
    api: Api, folder: Path, settings: Settings | None = None
) -> AsyncGenerator[Client]:
    """A client of a server that asks our webhooks."""
    chosen = settings or Settings()
    async with api.client() as client:
        await install_definitions(client)
        published = asyncio.Event()

        async def publish(ca_pem: bytes) -> None:
            await install_webhooks(client, AtUrl(url), ca_pem, chosen)
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
                await _until_asked(client, api.namespace)
            yield client
        finally:
            for resource in CONFIGURATIONS:
                with suppress(NotFound):
                    await client.delete(resource, NAME)
            server.stop()
            await running


async def _until_asked(client: Client, namespace: str) -> None:
    """The API server takes a moment to notice both of its new configurations.

    Once both are asked, the set is refused for what it says, not for what it leaves out.
    """
    own = with_value(pod_clique_set(), "metadata.namespace", namespace)
    refused = with_value(own, "spec.template.cliques[0].spec.minAvailable", 9)
    while True:
        try:
            await client.create(_SETS, refused, namespace, dry_run=True)
        except ApiStatusError as error:
            if "denied the request" in error.message and "Required" not in error.message:
                return
        await asyncio.sleep(0.05)
