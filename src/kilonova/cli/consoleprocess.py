"""`kilonova run console`: the console as a process of its own, for any cluster."""

import os
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from kilonova.cli.consolewhy import explainer
from kilonova.cli.failure import CommandFailed
from kilonova.cli.process import Process, ProcessOptions, run_process
from kilonova.cli.reasons import explained
from kilonova.cli.served import served_on
from kilonova.cli.sources import Source, readable
from kilonova.console import Console, ConsoleSettings, build_console
from kilonova.kube.kubeconfig import kubeconfig_files, read_kubeconfig
from kilonova.kube.serving import why_not_had

NAME = "kilonova-console"
"""Who writes, when something is done from the page."""
_IN_CLUSTER = "Kubernetes"
_RIGHTS = "; a console has nothing to show then: see deploy/console/clusterrole.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions(ProcessOptions):
    """A console to run."""

    host: str
    port: int
    allow_actions: bool
    token_file: Path | None


def run_console(options: ConsoleOptions) -> None:
    """Run until asked to stop; `CommandFailed` when it cannot, or can no longer."""
    settings = _settings(options)

    async def assemble(process: Process) -> None:
        client = process.client
        with explained("look", _RIGHTS):
            await readable(client, (Source("nodes"), Source("pods")))
            whose = replace(settings, schedulers=await served_on(client))
        console = build_console(client, whose, explainer(client), instruments=process.metrics)
        _bind(console, options)
        process.manager.add(*console.parts)
        # Not into the log of a pod: who runs it there knows the token.
        if options.token_file is None or sys.stdout.isatty():
            typer.echo(f"The console is at {console.link}")

    run_process(NAME, options, assemble)


def _settings(options: ConsoleOptions) -> ConsoleSettings:
    file = options.token_file
    token = secrets.token_urlsafe(24) if file is None else kept_token(file.expanduser())
    try:
        return ConsoleSettings(
            token=token,
            cluster=_cluster(options),
            host=options.host,
            port=options.port,
            allow_actions=options.allow_actions,
        )
    except ValueError as error:
        raise CommandFailed(f"{file}: {error}") from error


def _bind(console: Console, options: ConsoleOptions) -> None:
    try:
        console.bind()
    except OSError as error:
        raise CommandFailed(
            f"port {options.port} of {options.host} cannot be had ({why_not_had(error)}): "
            "choose another with --port (0 takes a free one) or --host"
        ) from error


def kept_token(file: Path) -> str:
    """The token in a file, which is made, for its owner alone, if it is not there."""
    try:
        if not file.exists():
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "w") as new:
                new.write(secrets.token_urlsafe(24) + "\n")
        return file.read_text().strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CommandFailed(f"--token-file {file} cannot be used: {reason}") from error


def _cluster(options: ConsoleOptions) -> str:
    """What people call the cluster: the context by which they reach it."""
    if options.context is not None:
        return options.context
    files = kubeconfig_files() if options.kubeconfig is None else [options.kubeconfig.expanduser()]
    with explained():
        return read_kubeconfig(files).current_context or _IN_CLUSTER
