"""An API server that calls the webhooks of a component, over TLS."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, NotFound
from kilonova.kube.admission import AdmissionServer, FolderSource
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from kilonova.kube.admission.registration import UrlEndpoint, WebhookSet
from tests.conftest import Api


@asynccontextmanager
async def running_webhook_set(
    api: Api,
    folder: Path,
    webhooks: WebhookSet,
    wait_until_called: Callable[[Client, str], Awaitable[None]],
) -> AsyncGenerator[Client]:
    """A client of a server that calls the webhooks.

    `wait_until_called` returns when the server has noticed both configurations; it gets a client
    and a namespace.
    """
    async with api.client() as client:
        await install_definitions(client)

        async def publish(ca_pem: bytes) -> None:
            await webhooks.install(client, UrlEndpoint(url), ca_pem)

        server = AdmissionServer(
            webhooks.handlers,
            FolderSource(folder, ["127.0.0.1"]),
            host="127.0.0.1",
            port=0,
            publish=publish,
        )
        url = f"https://127.0.0.1:{server.bind()}"
        running = asyncio.create_task(server.run())
        try:
            await wait_until_called(client, api.namespace)
            yield client
        finally:
            for resource in WEBHOOK_CONFIGURATIONS:
                with suppress(NotFound):
                    await client.delete(resource, webhooks.name)
            server.stop()
            await running
