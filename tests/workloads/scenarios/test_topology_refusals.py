"""TAS21 and TAS22: constraints that cannot be meant are refused, by webhooks and by the schema."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, Client
from tests.conftest import Api
from tests.workloads.admission.webhooks import webhooks
from tests.workloads.ground import SETS, TOPOLOGIES
from tests.workloads.scenarios.plant import TOPOLOGY, constrained, topology, within

ELSEWHERE = {"topologyName": "elsewhere", "pack": {"required": "rack"}}
NAMELESS = {"pack": {"required": "rack"}}
TEMPLATE = "spec.template"
GROUP = f"{TEMPLATE}.podCliqueScalingGroups[0].topologyConstraint"

REFUSED_BY_WEBHOOK: dict[str, tuple[JsonObject, str]] = {
    "unknown level": (
        constrained("tas-group-only", whole=within("row")),
        f'{TEMPLATE}.topologyConstraint.pack.required: Invalid value: "row"',
    ),
    "unknown topology": (
        constrained("tas-group-only", whole=ELSEWHERE),
        f'{TEMPLATE}.topologyConstraint.topologyName: Not found: "elsewhere"',
    ),
    "no topology": (
        constrained("tas-group-only", whole=NAMELESS),
        f"{TEMPLATE}.topologyConstraint.topologyName: Required value",
    ),
    "two topologies": (
        constrained("tas-group-only", whole=within("block"), groups={"pool": ELSEWHERE}),
        f'{GROUP}.topologyName: Invalid value: "elsewhere"',
    ),
    "set narrower than its group": (
        constrained("tas-group-only", whole=within("host"), groups={"pool": within("rack")}),
        f'{TEMPLATE}.topologyConstraint.pack.required: Invalid value: "host"',
    ),
    "group narrower than its clique": (
        constrained(
            "tas-group-only", groups={"pool": within("host")}, cliques={"worker": within("rack")}
        ),
        f'{GROUP}.pack.required: Invalid value: "host"',
    ),
}

OLD = "packDomain is deprecated and cannot be used on new workloads; use pack.required"
OLD_CONSTRAINT = {"topologyName": TOPOLOGY, "packDomain": "rack"}
REFUSED_BY_SCHEMA: dict[str, tuple[JsonObject, str]] = {
    "old field of the set": (constrained("tas-group-only", whole=OLD_CONSTRAINT), OLD),
    "old field of a group": (constrained("tas-group-only", groups={"pool": OLD_CONSTRAINT}), OLD),
    "old field of a clique": (
        constrained("tas-group-only", cliques={"router": OLD_CONSTRAINT}),
        OLD,
    ),
    "both fields": (
        constrained("tas-group-only", whole=within("rack") | {"packDomain": "rack"}),
        "topologyConstraint must not set both pack.required and deprecated packDomain",
    ),
    "nothing said": (
        constrained("tas-group-only", groups={"pool": {"topologyName": TOPOLOGY}}),
        "topologyConstraint must specify pack or deprecated packDomain",
    ),
    "empty pack": (
        constrained("tas-group-only", whole=within()),
        "pack must specify at least one of required or preferred",
    ),
    "not the name of a level": (
        constrained("tas-group-only", whole=within("Rack")),
        "should match '^[a-z][a-z0-9-]*$'",
    ),
}


async def refusal(client: Client, namespace: str, body: JsonObject) -> str:
    """What a server says to a set that it does not take."""
    with pytest.raises(ApiStatusError) as refused:
        await client.create(SETS, body, namespace, dry_run=True)
    assert refused.value.code == 422
    return refused.value.message


async def test_tas21_webhook_refuses_what_no_topology_has(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path) as client:
        await client.apply(TOPOLOGIES, TOPOLOGY, topology(), manager="person")
        try:
            for case, (body, words) in REFUSED_BY_WEBHOOK.items():
                told = await refusal(client, api.namespace, body)
                assert words in told, case
        finally:
            await client.delete(TOPOLOGIES, TOPOLOGY)


async def test_tas21_constraints_of_a_set_that_is_there_stay(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path) as client:
        await client.apply(TOPOLOGIES, TOPOLOGY, topology(), manager="person")
        try:
            body = constrained("tas-set-only", whole=within("rack"))
            await client.create(SETS, body, api.namespace)
            wider: Any = {"topologyConstraint": within("block")}
            with pytest.raises(ApiStatusError, match="field is immutable: it was"):
                await client.patch(
                    SETS, "tas-set-only", {"spec": {"template": wider}}, api.namespace
                )
        finally:
            await client.delete(TOPOLOGIES, TOPOLOGY)


async def test_tas22_schema_refuses_without_any_webhook(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)
        for case, (body, words) in REFUSED_BY_SCHEMA.items():
            told = await refusal(client, api.namespace, body)
            assert words in told, case
