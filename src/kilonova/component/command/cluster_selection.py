"""Which kubeconfig, namespace and data directory a command uses."""

import os
from collections.abc import Mapping
from pathlib import Path

from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.data_directory import (
    KUBECONFIG,
    default_data_directory,
    is_clusters_directory,
    is_data_directory,
    is_locked,
)
from kilonova.component.failure import CommandFailed
from kilonova.kube import ConfigError, load_client_config
from kilonova.kube.client.config.kubeconfig import default_kubeconfig_files, read_kubeconfig


def resolve_kubeconfig(
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    environment: Mapping[str, str] = os.environ,
) -> Path | None:
    """The kubeconfig to use; None means the one that kubectl would use.

    In this order: --kubeconfig, the cluster of --data, what kubectl finds, the cluster that
    `kilonova up` runs in the default data directory.
    """
    if kubeconfig is not None:
        return kubeconfig
    if data is not None:
        directory = data.expanduser().absolute()
        if not is_locked(directory):
            raise CommandFailed(
                f"no cluster is running in {data}: start it with `kilonova up --data {data}`"
            )
        return directory / KUBECONFIG
    # A wrong KUBECONFIG must not silently select another cluster.
    is_named = context is not None or bool(environment.get("KUBECONFIG"))
    if not is_named and not any(file.exists() for file in default_kubeconfig_files(environment)):
        default = default_data_directory(environment)
        if is_locked(default):
            return default / KUBECONFIG
    return None


def resolve_data_directory(data: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data directory that `status`, `down` and `doctor` use.

    In this order: --data or KILONOVA_DATA_DIR, the directory of the file that KUBECONFIG names if
    that is a data directory, the default.
    """
    chosen = (
        data
        or find_data_directory_of_kubeconfig(environment)
        or default_data_directory(environment)
    )
    return Path(os.path.abspath(chosen.expanduser()))


def find_data_directory_of_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The data directory whose kubeconfig KUBECONFIG names. If it lists several files, the first
    one with a current context is used, as kubectl does."""
    if not environment.get("KUBECONFIG"):
        return None
    for file in default_kubeconfig_files(environment):
        try:
            current = read_kubeconfig([file]).current_context
        except ConfigError:
            return None
        if current:
            paths = (Path(os.path.abspath(file)), file.resolve())
            return next(
                (
                    path.parent
                    for path in paths
                    if path.name == KUBECONFIG
                    and (is_data_directory(path.parent) or is_clusters_directory(path.parent))
                ),
                None,
            )
    return None


def resolve_namespace(namespace: str | None, kubeconfig: Path | None, context: str | None) -> str:
    """The given namespace, else the one of the context."""
    if namespace:
        return namespace
    with translate_cluster_errors("read from"):
        return load_client_config(kubeconfig, context).namespace
