"""Imports the product and fills its caches, for a process that forks others to run the product.

A fork has everything in memory: it takes neither Python's startup time nor that of imports and of
tables that are built on first use, which is most of the time of a short command.
"""

import asyncio
import contextlib
import gc
import importlib
import io
import pkgutil
import sys
import tempfile
import threading
from unittest import mock

import kilonova


def preload() -> None:
    """Import all modules, and run a command and a cluster once."""
    for module in pkgutil.walk_packages(kilonova.__path__, "kilonova."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    for name in ("uvloop", "uvicorn.lifespan.off", "rich.console"):
        importlib.import_module(name)
    _run_command_once()
    asyncio.run(_run_cluster_once())
    assert threading.active_count() == 1, "a fork keeps the locks of threads, and not the threads"
    gc.collect()
    gc.freeze()  # so that forks neither scan nor copy it


def _run_command_once() -> None:
    """Typer imports what it needs to convert arguments when the first command is parsed."""
    from kilonova.cli import main

    with (
        tempfile.TemporaryDirectory() as empty,
        mock.patch.object(sys, "argv", ["kilonova", "status", "--data", empty]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        main()


async def _run_cluster_once() -> None:
    from kilonova.local.cluster import ClusterSettings, EmbeddedCluster

    cluster = EmbeddedCluster(ClusterSettings(port=None, data=None))
    await cluster.start()
    await cluster.wait_nodes_registered()
    await cluster.stop()
