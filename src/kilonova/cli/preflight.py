"""What must be so before a process begins its work on a cluster, told before it begins."""

from collections.abc import Sequence
from typing import Any

import msgspec

from kilonova.cli.failure import CommandFailed
from kilonova.kube import Client, NotFound, Request, Resource, plain

_NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)
_SELF = plain("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


async def require_installed(client: Client, wanted: Sequence[Resource[Any]]) -> None:
    """That kinds of ours are there."""
    missing = await missing_kinds(client, wanted)
    if missing:
        raise CommandFailed(f"not installed on this cluster: {missing}; run `kilonova install`")


async def require_namespace(client: Client, name: str, what: str = "the Lease") -> None:
    """That there is a place for what a process keeps."""
    try:
        await client.get(_NAMESPACES, name)
    except NotFound:
        problem = f"there is no namespace {name} for {what}"
        raise CommandFailed(f"{problem}: create it, or name another with --namespace") from None


async def user_name(client: Client) -> str:
    """The name by which the cluster knows us."""
    review = await client.create(_SELF, {})
    return str(review["status"]["userInfo"]["username"])


async def missing_kinds(client: Client, wanted: Sequence[Resource[Any]]) -> str:
    """The names of kinds that a cluster does not serve; empty if it serves them all."""
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
