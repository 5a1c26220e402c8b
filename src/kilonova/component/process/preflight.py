"""Checks before a process starts its work on a cluster."""

from collections.abc import Sequence
from typing import Any

import msgspec

from kilonova.component.failure import CommandFailed
from kilonova.kube import Client, NotFound, Request, Resource, unstructured_resource

_NAMESPACES = unstructured_resource("", "v1", "namespaces", "Namespace", False)
_SELF_SUBJECT_REVIEWS = unstructured_resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False
)


async def require_installed(client: Client, wanted: Sequence[Resource[Any]]) -> None:
    """`CommandFailed` if one of our kinds is not served."""
    missing = await missing_kinds(client, wanted)
    if missing:
        raise not_installed_error(missing)


def not_installed_error(missing: str) -> CommandFailed:
    """The failure to start without these CRDs."""
    return CommandFailed(f"not installed on this cluster: {missing}; run `kilonova install`")


async def require_namespace(client: Client, name: str, what: str = "the Lease") -> None:
    """`CommandFailed` if the namespace for the process's own objects does not exist."""
    try:
        await client.get(_NAMESPACES, name)
    except NotFound:
        problem = f"namespace {name} for {what} does not exist"
        raise CommandFailed(f"{problem}: create it, or use another with --namespace") from None


async def authenticated_user(client: Client) -> str:
    """The user name that the cluster authenticates us as."""
    review = await client.create(_SELF_SUBJECT_REVIEWS, {})
    return str(review["status"]["userInfo"]["username"])


async def missing_kinds(client: Client, wanted: Sequence[Resource[Any]]) -> str:
    """The resources that a cluster does not serve, comma-separated; empty if it serves all."""
    served: set[str] = set()
    for group in {f"{each.group}/{each.version}" for each in wanted}:
        try:
            reply = await client.send(Request("GET", f"/apis/{group}"))
        except NotFound:
            continue
        found = msgspec.json.decode(reply.body, type=_ApiResourceList)
        served.update(f"{group}/{each.name}" for each in found.resources)
    return ", ".join(
        each.full_name
        for each in wanted
        if f"{each.group}/{each.version}/{each.plural}" not in served
    )


async def unserved_kinds(client: Client, definitions: Sequence[str]) -> str:
    """Of these names of CRDs, those whose kinds are not served, comma-separated."""
    served: set[str] = set()
    for group in {each.partition(".")[2] for each in definitions}:
        try:
            reply = await client.send(Request("GET", f"/apis/{group}"))
        except NotFound:
            continue
        for version in msgspec.json.decode(reply.body, type=_ApiGroup).versions:
            path = f"/apis/{version.group_version}"
            listed = await client.send(Request("GET", path))
            found = msgspec.json.decode(listed.body, type=_ApiResourceList)
            served.update(f"{each.name}.{group}" for each in found.resources)
    return ", ".join(each for each in definitions if each not in served)


class _ApiVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _ApiGroup(msgspec.Struct):
    versions: list[_ApiVersion] = []


class _ApiResource(msgspec.Struct):
    name: str


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] = []
