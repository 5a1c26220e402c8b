"""What must be so before a process begins its work on a cluster, told before it begins."""

from collections.abc import Sequence
from typing import Any

import msgspec

from kilonova.cli.failure import NO_COMPUTE_DOMAINS, CommandFailed
from kilonova.kube import (
    Client,
    NotFound,
    Request,
    Resource,
    plain,
)
from kilonova.workloads.admission import AtService
from kilonova.workloads.resources import (
    CLIQUES,
    COMPUTE_DOMAINS,
    GANGS,
    GROUPS,
    SERVICES,
    SETS,
    TOPOLOGIES,
)
from kilonova.workloads.settings import Settings

_NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)
_SELF = plain("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


async def require_kinds(client: Client, settings: Settings) -> None:
    """That the kinds which an operator goes about are there."""
    missing = await _missing(client, (SETS, CLIQUES, GROUPS, TOPOLOGIES, GANGS))
    if missing:
        raise CommandFailed(f"not installed on this cluster: {missing}; run `kilonova install`")
    if settings.mnnvl and (missing := await _missing(client, (COMPUTE_DOMAINS,))):
        fix = "install NVIDIA's DRA driver, or leave out --mnnvl"
        raise CommandFailed(f"multi-node NVLink needs {missing}: {fix}", NO_COMPUTE_DOMAINS)


async def require_namespace(client: Client, name: str) -> None:
    """That there is a place for the Lease and the certificates."""
    try:
        await client.get(_NAMESPACES, name)
    except NotFound:
        problem = f"there is no namespace {name} for the Lease and the certificates"
        raise CommandFailed(f"{problem}: create it, or name another with --namespace") from None


async def require_service(client: Client, address: AtService) -> None:
    """That the API server will find the webhooks behind their Service."""
    try:
        await client.get(SERVICES, address.name, address.namespace)
    except NotFound:
        problem = f"there is no Service {address.namespace}/{address.name} for the webhooks"
        others = "--webhook-service NAMESPACE/NAME, --webhook-url https://HOST:PORT where this "
        others += "process is outside of the cluster, or --no-webhooks"
        raise CommandFailed(f"{problem}: create it, or say {others}") from None


async def user_name(client: Client) -> str:
    """The name by which the cluster knows us."""
    review = await client.create(_SELF, {})
    return str(review["status"]["userInfo"]["username"])


async def _missing(client: Client, wanted: Sequence[Resource[Any]]) -> str:
    served: set[str] = set()
    for group in {f"{each.group}/{each.version}" for each in wanted}:
        try:
            reply = await client.send(Request("GET", f"/apis/{group}"))
        except NotFound:
            continue
        found = msgspec.json.decode(reply.body, type=_Discovery)
        served.update(f"{group}/{each.name}" for each in found.resources)
    return ", ".join(
        each.full_name
        for each in wanted
        if f"{each.group}/{each.version}/{each.plural}" not in served
    )


class _Named(msgspec.Struct):
    name: str


class _Discovery(msgspec.Struct):
    resources: list[_Named] = []
