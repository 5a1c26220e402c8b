"""Reads and changes the services of a cluster for a command."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService, names
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
from kilonova.component.failure import CommandFailed
from kilonova.kube import Client, Forbidden, NotFound, connect
from kilonova.serving.resources import INFERENCE_SERVICES, PODS, Pod

R = TypeVar("R")

FIELD_MANAGER = "kilonova-serve"


class ServiceCluster:
    """The cluster and namespace that the flags of a command select."""

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str | None,
        data: Path | None,
        namespace: str | None = None,
    ) -> None:
        self._kubeconfig = resolve_kubeconfig(kubeconfig, context, data)
        self._context = context
        self.namespace = resolve_namespace(namespace, self._kubeconfig, context)

    def run(self, action: Callable[[Client], Awaitable[R]]) -> R:
        """Run an action with a client; `CommandFailed` says what is wrong with the cluster."""

        async def run() -> R:
            connected = connect(self._kubeconfig, self._context, field_manager=FIELD_MANAGER)
            async with connected as client:
                try:
                    return await action(client)
                except KindUnavailable:
                    presented = await self._present_config_maps(client)
                    if presented is None:
                        raise
                    return await action(presented)

        with translate_cluster_errors("work on", "; `kilonova doctor` lists missing permissions"):
            return asyncio.run(run())

    async def _present_config_maps(self, client: Client) -> Client | None:
        """A client that sees ConfigMaps as services, where there are any (the namespaced mode)."""
        from kilonova.serving.sources import ConfigMapTransport

        presented = client.wrap_transport(
            lambda transport: ConfigMapTransport(transport, self.namespace)
        )
        try:
            found = await presented.list(INFERENCE_SERVICES, self.namespace)
        except (NotFound, Forbidden):
            return None
        return presented if found.items else None

    def change(self, name: str, spec: JsonObject, *, dry_run: bool = False) -> InferenceService:
        """Change fields of the spec of a service."""

        async def patch(client: Client) -> InferenceService:
            await get_service(client, name, self.namespace)
            return await client.patch(
                INFERENCE_SERVICES, name, {"spec": spec}, self.namespace, dry_run=dry_run
            )

        return self.run(patch)


async def list_services(client: Client, namespace: str | None) -> list[InferenceService]:
    """The services of a namespace, or of all, by namespace and name."""
    try:
        found = (await client.list(INFERENCE_SERVICES, namespace)).items
    except NotFound:
        raise no_such_kind() from None
    except Forbidden as error:
        raise KindUnavailable(f"permission denied: {error.message}") from error
    return sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name))


async def get_service(client: Client, name: str, namespace: str) -> InferenceService:
    """One service; `CommandFailed` names those that there are if it does not exist."""
    try:
        return await client.get(INFERENCE_SERVICES, name, namespace)
    except Forbidden as error:
        raise KindUnavailable(f"permission denied: {error.message}") from error
    except NotFound:
        known = ", ".join(each.metadata.name for each in await list_services(client, namespace))
        raise CommandFailed(
            f"InferenceService {name} does not exist in namespace {namespace}; there "
            f"{'are: ' + known if known else 'is none: `kilonova serve list -A` lists all'}"
        ) from None


async def list_pods(client: Client, name: str, namespace: str) -> list[Pod]:
    """The pods of a service, of servers and gateways."""
    selector = f"{names.SERVICE}={name}"
    found = (await client.list(PODS, namespace, label_selector=selector)).items
    return sorted(found, key=lambda each: each.metadata.name)


class KindUnavailable(CommandFailed):
    """The cluster does not have InferenceServices, or not for this user."""


def no_such_kind() -> KindUnavailable:
    """The failure on a cluster without InferenceServices."""
    return KindUnavailable(
        "this cluster does not know InferenceServices: run `kilonova install --components "
        "serving`, or choose another cluster with --context"
    )
