"""The process node's pods have loopback addresses: Endpoints and slices may name those."""

from typing import Any

import pytest

from kilonova.kube import Invalid
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.kinds.core import endpoints
from kilonova.local.processnode.network import POD_NETWORK
from tests.local.embedded_cluster import run_cluster
from tests.local.processnode.services.service_objects import slice_object

SLICES = unstructured_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
ENDPOINTS = unstructured_resource("", "v1", "endpoints", "Endpoints", True)


def in_endpoints(ip: str) -> Any:
    return {"metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": ip}]}]}


@pytest.mark.parametrize("ip", [str(POD_NETWORK[1]), str(POD_NETWORK[-2])])
async def test_address_of_a_process_pod_is_accepted(ip: str) -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        await client.create(SLICES, slice_object("a", ip), "default")
        made = await client.create(ENDPOINTS, in_endpoints(ip), "default")
    assert made["subsets"][0]["addresses"] == [{"ip": ip}]


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.63.255.255", "127.96.0.1"])
async def test_other_loopback_addresses_are_refused(ip: str) -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        for resource, obj in ((SLICES, slice_object("a", ip)), (ENDPOINTS, in_endpoints(ip))):
            with pytest.raises(Invalid, match="may not be in the loopback range"):
                await client.create(resource, obj, "default")


def test_both_know_the_same_network() -> None:
    assert endpoints._POD_NETWORK == POD_NETWORK
