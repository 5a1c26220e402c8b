"""Which cluster a command means, and which namespace in it."""

import os
from collections.abc import Mapping
from pathlib import Path

from kilonova.cli.failure import CommandFailed
from kilonova.cli.options import default_data
from kilonova.cli.reasons import explained
from kilonova.kube import ConfigError, find_access
from kilonova.kube.kubeconfig import kubeconfig_files, read_kubeconfig
from kilonova.local.folder import Folder


def cluster_meant(
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    environment: Mapping[str, str] = os.environ,
) -> Path | None:
    """The kubeconfig to use; None is what kubectl would use.

    That of --kubeconfig, else of the cluster on --data, else as kubectl finds it, else of the
    cluster that `kilonova up` runs on the usual folder.
    """
    if kubeconfig is not None:
        return kubeconfig
    if data is not None:
        folder = Folder(data.expanduser().absolute())
        if not folder.is_taken():
            raise CommandFailed(
                f"nothing runs on {data}: start it with `kilonova up --data {data}`"
            )
        return folder.kubeconfig
    # A KUBECONFIG that is wrong must not lead to another cluster.
    named = context is not None or bool(environment.get("KUBECONFIG"))
    if not named and not any(file.exists() for file in kubeconfig_files(environment)):
        usual = Folder(default_data(environment))
        if usual.is_taken():
            return usual.kubeconfig
    return None


def folder_meant(data: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder that `status`, `down` and `doctor` mean.

    That of --data or KILONOVA_DATA_DIR, else the one in which the file lies that KUBECONFIG names,
    if it is a cluster's of ours, else the usual one.
    """
    chosen = data or folder_of_kubeconfig(environment) or default_data(environment)
    return Path(os.path.abspath(chosen.expanduser()))


def folder_of_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The data folder whose kubeconfig KUBECONFIG names. Of several files, the first that has a
    current context decides, as for kubectl."""
    if not environment.get("KUBECONFIG"):
        return None
    for file in kubeconfig_files(environment):
        try:
            current = read_kubeconfig([file]).current_context
        except ConfigError:
            return None
        if current:
            places = (Path(os.path.abspath(file)), file.resolve())
            ours = (each.parent for each in places if Folder(each.parent).kubeconfig == each)
            return next((each for each in ours if Folder(each).is_ours()), None)
    return None


def namespace_meant(namespace: str | None, kubeconfig: Path | None, context: str | None) -> str:
    """The namespace that was named, else that of the context."""
    if namespace:
        return namespace
    with explained("look"):
        return find_access(kubeconfig, context).namespace
