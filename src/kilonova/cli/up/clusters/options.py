"""The options of each of several clusters, from those of `kilonova up`."""

from dataclasses import replace
from pathlib import Path

from kilonova.cli.up.clusters.directory import ClusterEntry, ClustersDirectory
from kilonova.cli.up.options import UpOptions
from kilonova.component import FlagValue

_NODES_FILE = Path(__file__).with_name("nodes.yaml")
_PORTS_OF_CLUSTER = 2
"""The API, and after it the console."""
_HUBS = 2
"""How many clusters run a manager: one leads, the other takes over."""
_PROCESS_NODE = "process-node"
"""One machine can have one: there is one network of pods and Services."""


def derive_options(
    options: UpOptions, directory: ClustersDirectory, cluster: ClusterEntry
) -> UpOptions:
    """The options of one of the clusters."""
    names = [each for each in options.components if each != _PROCESS_NODE or not cluster.index]
    names += ["member", "fleet"] if cluster.index < _HUBS else ["member"]
    flags: dict[str, FlagValue] = {
        "nodes": str(_NODES_FILE),
        **{name: value for name, value in options.flags.items() if value is not None},
        "global-leader-elect-endpoint": str(directory.store),
        "cluster-name": cluster.name,
        "cluster-region": cluster.region,
    }
    port = directory.port and directory.port + _PORTS_OF_CLUSTER * cluster.index
    console = port and port + 1
    first = options.flags.get("console-port")
    if isinstance(first, int):
        console = flags["console-port"] = first and first + cluster.index
    if console and "console" in options.components:
        # Without the token: browsers that have opened it are known there.
        flags["cluster-console"] = f"http://{flags.get('console-host', '127.0.0.1')}:{console}/"
    return replace(
        options,
        data=directory.data_of(cluster),
        port=port,
        demo=False,
        components=tuple(dict.fromkeys(names)),
        flags=flags,
        name=cluster.name,
        index=cluster.index,
    )
