"""`kilonova install`: bring the definitions of our kinds to a cluster, and see that they serve."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from kilonova.api.crds import definitions
from kilonova.api.json import JsonObject
from kilonova.cli.failure import CommandFailed
from kilonova.cli.reasons import explained
from kilonova.kube import (
    Client,
    NotFound,
    connect,
    plain,
)

DEFINITIONS = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

_PATIENCE = 30.0
_INTERVAL = 0.05


@dataclass(frozen=True, slots=True)
class Installed:
    """A definition, and what became of it."""

    name: str
    outcome: Literal["created", "changed", "unchanged"]


def written_definitions() -> str:
    """All definitions as documents of YAML, for those who install them themselves."""
    return "---\n".join(msgspec.yaml.encode(each).decode() for each in definitions()).rstrip()


def install_on_cluster(
    kubeconfig: Path | None, context: str | None, *, dry_run: bool
) -> list[Installed]:
    """Install the definitions on the cluster that a kubeconfig leads to."""
    return asyncio.run(_install_with_reasons(kubeconfig, context, dry_run))


async def install_definitions(client: Client, *, dry_run: bool = False) -> list[Installed]:
    """Apply every definition as ours, whoever had it before, and wait until all are served."""
    installed = [await _apply(client, each, dry_run) for each in definitions()]
    if not dry_run:
        await _wait_served(client, [each.name for each in installed])
    return installed


async def _install_with_reasons(
    kubeconfig: Path | None, context: str | None, dry_run: bool
) -> list[Installed]:
    needed = f"get, create and patch {DEFINITIONS.full_name}"
    with explained("install", f"; whoever installs must be able to {needed}"):
        async with connect(kubeconfig, context) as client:
            return await install_definitions(client, dry_run=dry_run)


async def _apply(client: Client, definition: JsonObject, dry_run: bool) -> Installed:
    name: str = definition["metadata"]["name"]
    try:
        before = await client.get(DEFINITIONS, name)
    except NotFound:
        before = None
    after = await client.apply(DEFINITIONS, name, definition, dry_run=dry_run)
    if before is None:
        return Installed(name, "created")
    return Installed(name, "unchanged" if after["spec"] == before["spec"] else "changed")


async def _wait_served(client: Client, names: Sequence[str]) -> None:
    """Return when every definition is established; say what is in its way if it never will be."""
    waiting = list(names)
    try:
        async with asyncio.timeout(_PATIENCE):
            while waiting:
                found = await client.get(DEFINITIONS, waiting[0])
                if _is_served(found):
                    del waiting[0]
                else:
                    await asyncio.sleep(_INTERVAL)
    except TimeoutError:
        who = ", ".join(waiting)
        raise CommandFailed(f"not served within {_PATIENCE:.0f} s: {who}") from None


def _is_served(definition: JsonObject) -> bool:
    """Whether its objects can be made; `CommandFailed` where that will not come by itself."""
    name: str = definition["metadata"]["name"]
    if "deletionTimestamp" in definition["metadata"]:
        raise CommandFailed(f"{name} is being deleted: install again when it is gone")
    listed: list[JsonObject] = definition.get("status", {}).get("conditions") or []
    conditions = {each["type"]: each for each in listed}
    names = conditions.get("NamesAccepted", {})
    if names.get("status") == "False":
        raise CommandFailed(f"{name} cannot be served beside another kind: {names['message']}")
    return conditions.get("Established", {}).get("status") == "True"
