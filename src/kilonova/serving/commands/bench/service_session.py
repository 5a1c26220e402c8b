"""Load on a service of a cluster."""

from dataclasses import replace

from kilonova.serving.commands.bench.service_address import find_address
from kilonova.serving.commands.bench.session import run_bench
from kilonova.serving.commands.bench.settings import BenchSettings
from kilonova.serving.commands.cluster_access import ServiceCluster, get_service


def run_service_bench(cluster: ServiceCluster, name: str, settings: BenchSettings) -> None:
    """Find the gateway of a service, and run the load against it."""
    service = cluster.run(lambda client: get_service(client, name, cluster.namespace))
    address, protocol = find_address(service, settings.protocol)
    run_bench(address, replace(settings, protocol=protocol))
