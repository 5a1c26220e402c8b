"""`kilonova install`: apply Kilonova's CustomResourceDefinitions and wait until they are served."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from kilonova.api.json import JsonObject
from kilonova.cli.up.components.selection import parse_component_names
from kilonova.component import find_components
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.definitions import load_component_definitions
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.kube import (
    Client,
    NotFound,
    connect,
    unstructured_resource,
)

DEFINITIONS = unstructured_resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class InstalledDefinition:
    """A CustomResourceDefinition and the result of applying it."""

    name: str
    outcome: Literal["created", "changed", "unchanged"]


def select_definitions(names: str | None) -> list[JsonObject]:
    """The definitions that these components need, a comma-separated list; None for all.

    `WrongUsage` for a name that is not that of a component with definitions.
    """
    known = find_components()
    components = [each for each in known if each.kinds]
    if names is not None:
        typed = {name.strip() for name in names.split(",")}
        for each in known:
            if each.name in typed and not each.kinds:
                choices = ", ".join(other.name for other in components)
                raise WrongUsage(
                    f"--components {each.name}: it needs no CRDs: leave it out, "
                    f"or choose from {choices}"
                )
        selected = parse_component_names("--components", names, components)
        components = [each for each in components if each.name in selected]
    return load_component_definitions(components)


def format_definitions(definitions: Sequence[JsonObject], output: Literal["yaml", "json"]) -> str:
    """Definitions as YAML documents, or as a List in JSON, to be applied by other tools."""
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(definitions)}
        return msgspec.json.format(msgspec.json.encode(listed), indent=2).decode()
    return "---\n".join(msgspec.yaml.encode(each).decode() for each in definitions).rstrip()


def install_on_cluster(
    definitions: Sequence[JsonObject],
    kubeconfig: Path | None,
    context: str | None,
    *,
    dry_run: bool,
) -> list[InstalledDefinition]:
    """Install definitions on the cluster of a kubeconfig."""
    return asyncio.run(_connect_and_install(definitions, kubeconfig, context, dry_run))


async def install_definitions(
    client: Client, definitions: Sequence[JsonObject] | None = None, *, dry_run: bool = False
) -> list[InstalledDefinition]:
    """Apply definitions (None: all), taking over field ownership, and wait until all are served."""
    wanted = select_definitions(None) if definitions is None else definitions
    installed = [await _apply_definition(client, each, dry_run) for each in wanted]
    if not dry_run:
        await _wait_established(client, [each.name for each in installed])
    return installed


async def _connect_and_install(
    definitions: Sequence[JsonObject],
    kubeconfig: Path | None,
    context: str | None,
    dry_run: bool,
) -> list[InstalledDefinition]:
    hint = f"; `kilonova install` must be allowed to get, create and patch {DEFINITIONS.full_name}"
    with translate_cluster_errors("install on", hint):
        async with connect(kubeconfig, context) as client:
            return await install_definitions(client, definitions, dry_run=dry_run)


async def _apply_definition(
    client: Client, definition: JsonObject, dry_run: bool
) -> InstalledDefinition:
    name: str = definition["metadata"]["name"]
    try:
        before = await client.get(DEFINITIONS, name)
    except NotFound:
        before = None
    after = await client.apply(DEFINITIONS, name, definition, dry_run=dry_run)
    if before is None:
        return InstalledDefinition(name, "created")
    return InstalledDefinition(name, "unchanged" if after["spec"] == before["spec"] else "changed")


async def _wait_established(client: Client, names: Sequence[str]) -> None:
    """Return when every definition is established; `CommandFailed` if one cannot be."""
    waiting = list(names)
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while waiting:
                found = await client.get(DEFINITIONS, waiting[0])
                if _is_established(found):
                    del waiting[0]
                else:
                    await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        names = ", ".join(waiting)
        raise CommandFailed(f"not served within {_TIMEOUT_SECONDS:.0f} s: {names}") from None


def _is_established(definition: JsonObject) -> bool:
    """Whether the kind is served; `CommandFailed` if it will not be without intervention."""
    name: str = definition["metadata"]["name"]
    if "deletionTimestamp" in definition["metadata"]:
        raise CommandFailed(f"{name} is being deleted: install again when it is deleted")
    listed: list[JsonObject] = definition.get("status", {}).get("conditions") or []
    conditions = {each["type"]: each for each in listed}
    accepted = conditions.get("NamesAccepted", {})
    if accepted.get("status") == "False":
        raise CommandFailed(
            f"{name} cannot be served: names conflict with another kind: {accepted['message']}"
        )
    return conditions.get("Established", {}).get("status") == "True"
