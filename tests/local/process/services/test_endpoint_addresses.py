"""The process node's pods have loopback addresses: Endpoints and slices may name those."""

from typing import Any

import pytest

from kilonova.kube import Invalid
from kilonova.kube.resource import plain
from kilonova.local.kinds import endpoints
from kilonova.local.nodes.process.network import POD_NETWORK
from tests.local.embedded_cluster import running
from tests.local.process.services.service_objects import slice_object

SLICES = plain("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
ENDPOINTS = plain("", "v1", "endpoints", "Endpoints", True)


def in_endpoints(ip: str) -> Any:
    return {"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": ip}]}]}


@pytest.mark.parametrize("ip", [str(POD_NETWORK[1]), str(POD_NETWORK[-2])])
async def test_address_of_a_process_pod_is_taken(ip: str) -> None:
    async with running(controllers="") as cluster:
        client = cluster.client("test")
        await client.create(SLICES, slice_object("a", ip), "default")
        made = await client.create(ENDPOINTS, in_endpoints(ip), "default")
    assert made["subsets"][0]["addresses"] == [{"ip": ip}]


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.63.255.255", "127.96.0.1"])
async def test_other_loopback_addresses_are_refused(ip: str) -> None:
    async with running(controllers="") as cluster:
        client = cluster.client("test")
        for resource, obj in ((SLICES, slice_object("a", ip)), (ENDPOINTS, in_endpoints(ip))):
            with pytest.raises(Invalid, match="may not be in the loopback range"):
                await client.create(resource, obj, "default")


def test_both_know_the_same_network() -> None:
    assert endpoints._POD_NETWORK == POD_NETWORK
