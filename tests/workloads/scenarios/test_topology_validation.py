"""TAS21 and TAS22: invalid constraints are rejected, by webhooks and by the schema."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, Client
from tests.workloads.admission.running_webhooks import running_webhooks
from tests.workloads.scenarios.support.rack_cluster import (
    TOPOLOGY,
    load_topology,
    pack_constraint,
    with_constraints,
)
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.workload_cluster import SETS, TOPOLOGY_BINDINGS

ELSEWHERE = {"topologyName": "elsewhere", "pack": {"required": "rack"}}
NAMELESS = {"pack": {"required": "rack"}}
TEMPLATE = "spec.template"
GROUP = f"{TEMPLATE}.podCliqueScalingGroups[0].topologyConstraint"

REJECTED_BY_WEBHOOK: dict[str, tuple[JsonObject, str]] = {
    "unknown level": (
        with_constraints("tas-group-only", whole=pack_constraint("row")),
        f'{TEMPLATE}.topologyConstraint.pack.required: Invalid value: "row"',
    ),
    "unknown topology": (
        with_constraints("tas-group-only", whole=ELSEWHERE),
        f'{TEMPLATE}.topologyConstraint.topologyName: Not found: "elsewhere"',
    ),
    "no topology": (
        with_constraints("tas-group-only", whole=NAMELESS),
        f"{TEMPLATE}.topologyConstraint.topologyName: Required value",
    ),
    "two topologies": (
        with_constraints(
            "tas-group-only", whole=pack_constraint("block"), groups={"pool": ELSEWHERE}
        ),
        f'{GROUP}.topologyName: Invalid value: "elsewhere"',
    ),
    "set narrower than its group": (
        with_constraints(
            "tas-group-only",
            whole=pack_constraint("host"),
            groups={"pool": pack_constraint("rack")},
        ),
        f'{TEMPLATE}.topologyConstraint.pack.required: Invalid value: "host"',
    ),
    "group narrower than its clique": (
        with_constraints(
            "tas-group-only",
            groups={"pool": pack_constraint("host")},
            cliques={"worker": pack_constraint("rack")},
        ),
        f'{GROUP}.pack.required: Invalid value: "host"',
    ),
}

OLD = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
OLD_CONSTRAINT = {"topologyName": TOPOLOGY, "packDomain": "rack"}
REJECTED_BY_SCHEMA: dict[str, tuple[JsonObject, str]] = {
    "old field of the set": (with_constraints("tas-group-only", whole=OLD_CONSTRAINT), OLD),
    "old field of a group": (
        with_constraints("tas-group-only", groups={"pool": OLD_CONSTRAINT}),
        OLD,
    ),
    "old field of a clique": (
        with_constraints("tas-group-only", cliques={"router": OLD_CONSTRAINT}),
        OLD,
    ),
    "both fields": (
        with_constraints("tas-group-only", whole=pack_constraint("rack") | {"packDomain": "rack"}),
        "topologyConstraint must not set both pack.required and deprecated packDomain",
    ),
    "nothing said": (
        with_constraints("tas-group-only", groups={"pool": {"topologyName": TOPOLOGY}}),
        "topologyConstraint must specify pack or deprecated packDomain",
    ),
    "empty pack": (
        with_constraints("tas-group-only", whole=pack_constraint()),
        "pack must specify at least one of required or preferred",
    ),
    "not the name of a level": (
        with_constraints("tas-group-only", whole=pack_constraint("Rack")),
        "should match '^[a-z][a-z0-9-]*$'",
    ),
}


async def get_rejection(client: Client, namespace: str, body: JsonObject) -> str:
    """The error message of a server that rejects a set."""
    with pytest.raises(ApiStatusError) as rejected:
        await client.create(SETS, body, namespace, dry_run=True)
    assert rejected.value.code == 422
    return rejected.value.message


async def test_tas21_webhook_rejects_what_no_topology_has(api: ScenarioApi, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path) as client:
        await client.apply(TOPOLOGY_BINDINGS, TOPOLOGY, load_topology(), field_manager="person")
        try:
            for case, (body, words) in REJECTED_BY_WEBHOOK.items():
                message = await get_rejection(client, api.namespace, body)
                assert words in message, case
        finally:
            await client.delete(TOPOLOGY_BINDINGS, TOPOLOGY)


async def test_tas21_constraints_of_an_existing_set_are_immutable(
    api: ScenarioApi, tmp_path: Path
) -> None:
    async with running_webhooks(api, tmp_path) as client:
        await client.apply(TOPOLOGY_BINDINGS, TOPOLOGY, load_topology(), field_manager="person")
        try:
            body = with_constraints("tas-set-only", whole=pack_constraint("rack"))
            await client.create(SETS, body, api.namespace)
            wider: Any = {"topologyConstraint": pack_constraint("block")}
            with pytest.raises(ApiStatusError, match="field is immutable: it was"):
                await client.patch(
                    SETS, "tas-set-only", {"spec": {"template": wider}}, api.namespace
                )
        finally:
            await client.delete(TOPOLOGY_BINDINGS, TOPOLOGY)


async def test_tas22_schema_rejects_without_any_webhook(api: ScenarioApi) -> None:
    async with api.client() as client:
        await install_definitions(client)
        for case, (body, words) in REJECTED_BY_SCHEMA.items():
            message = await get_rejection(client, api.namespace, body)
            assert words in message, case
