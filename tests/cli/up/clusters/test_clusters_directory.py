"""Which clusters a directory of several has, and the options of each."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml

from kilonova.cli.up.clusters.directory import ClustersDirectory
from kilonova.cli.up.clusters.options import derive_options
from kilonova.cli.up.options import UpOptions
from kilonova.component import FlagValue
from kilonova.component.failure import CommandFailed


def options(
    data: Path, port: int = 7443, flags: Mapping[str, FlagValue] = MappingProxyType({})
) -> UpOptions:
    components = ("api", "nodes", "process-node", "scheduler")
    return UpOptions(data, "127.0.0.1", port, "full", True, components=components, flags=flags)


def test_clusters_have_ports_folders_and_addresses_of_their_own(tmp_path: Path) -> None:
    directory = ClustersDirectory.create(tmp_path, 3, 7443)
    derived = [derive_options(options(tmp_path), directory, each) for each in directory.clusters]
    assert [each.port for each in derived] == [7443, 7445, 7447]
    assert [each.index for each in derived] == [0, 1, 2]
    assert len({each.data for each in derived}) == 3
    assert [each.name for each in derived] == ["dal1", "msp2", "fra3"]


def test_first_has_the_process_node_and_two_have_a_manager(tmp_path: Path) -> None:
    directory = ClustersDirectory.create(tmp_path, 3, 7443)
    first, second, third = (
        derive_options(options(tmp_path), directory, each).components for each in directory.clusters
    )
    assert "process-node" in first
    assert "process-node" not in second
    assert {"fleet", "member"} <= {*first} & {*second}
    assert "member" in third
    assert "fleet" not in third


def test_any_free_ports_stay_any_free_ports(tmp_path: Path) -> None:
    directory = ClustersDirectory.create(tmp_path, 2, 0)
    ports = [
        derive_options(options(tmp_path, port=0), directory, each).port
        for each in directory.clusters
    ]
    assert ports == [0, 0]


def test_flags_of_the_user_win(tmp_path: Path) -> None:
    directory = ClustersDirectory.create(tmp_path, 2, 7443)
    given = options(tmp_path, flags={"nodes": "large", "console-port": 8000})
    derived = [derive_options(given, directory, each).flags for each in directory.clusters]
    assert [each["nodes"] for each in derived] == ["large", "large"]
    assert [each["console-port"] for each in derived] == [8000, 8001]
    assert {each["global-leader-elect-endpoint"] for each in derived} == {str(directory.store)}
    assert [each["cluster-name"] for each in derived] == ["dal1", "msp2"]


def test_console_of_each_cluster_is_linked(tmp_path: Path) -> None:
    directory = ClustersDirectory.create(tmp_path, 2, 7443)
    with_console = replace(options(tmp_path), components=("api", "console"))
    links = [
        derive_options(with_console, directory, each).flags.get("cluster-console")
        for each in directory.clusters
    ]
    assert links == ["http://127.0.0.1:7444/", "http://127.0.0.1:7446/"]
    without = derive_options(options(tmp_path), directory, directory.clusters[0])
    assert "cluster-console" not in without.flags


def test_clusters_can_be_added_and_keep_their_port(tmp_path: Path) -> None:
    ClustersDirectory.create(tmp_path, 2, 9000).write()
    grown = ClustersDirectory.create(tmp_path, 3, 7443)
    assert (len(grown.clusters), grown.port) == (3, 9000)


def test_fewer_clusters_are_rejected(tmp_path: Path) -> None:
    ClustersDirectory.create(tmp_path, 3, 7443).write()
    with pytest.raises(CommandFailed, match="has 3 clusters: start them with --clusters 3"):
        ClustersDirectory.create(tmp_path, 2, 7443)


def test_directory_of_one_cluster_is_rejected(tmp_path: Path) -> None:
    for name in ("store.db", "lock"):
        (tmp_path / name).touch()
    with pytest.raises(CommandFailed, match="is the data directory of one cluster"):
        ClustersDirectory.create(tmp_path, 2, 7443)


def test_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "clusters.json").write_text("{")
    with pytest.raises(CommandFailed, match=r"clusters\.json cannot be read"):
        ClustersDirectory.read(tmp_path)


def test_kubeconfig_has_a_context_for_each_cluster_that_has_started(tmp_path: Path) -> None:
    directory = ClustersDirectory.create(tmp_path, 3, 7443)
    for each in directory.clusters[:2]:
        directory.data_of(each).mkdir(parents=True)
        one = {
            "clusters": [{"name": "kilonova", "cluster": {"server": f"https://{each.name}"}}],
            "users": [{"name": "kubernetes-admin", "user": {"token": each.name}}],
        }
        (directory.data_of(each) / "kubeconfig").write_text(yaml.safe_dump(one))
    directory.write_kubeconfig()
    read = yaml.safe_load(directory.kubeconfig.read_text())
    assert read["current-context"] == "dal1"
    assert [each["name"] for each in read["contexts"]] == ["dal1", "msp2"]
    assert [each["cluster"]["server"] for each in read["clusters"]] == [
        "https://dal1",
        "https://msp2",
    ]
    assert directory.kubeconfig.stat().st_mode & 0o077 == 0
