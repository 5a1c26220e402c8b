"""`kilonova run console`: the console as a process of its own."""

import os
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from kilonova.cli.lists.table_sources import TableSource, filter_readable
from kilonova.cli.why.console_explainer import build_explainer
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.console.registered import build_with_contributions
from kilonova.component.failure import CommandFailed
from kilonova.component.process.process import Process, ProcessOptions, run_process
from kilonova.component.scheduler_names import served_scheduler_names
from kilonova.console import Console, ConsoleSettings, build_console
from kilonova.kube.client.config.kubeconfig import default_kubeconfig_files, read_kubeconfig
from kilonova.kube.serving.http_server import format_bind_error

NAME = "kilonova-console"
"""The field manager of actions."""
_IN_CLUSTER_NAME = "Kubernetes"
_PERMISSION_HINT = "; the console needs the permissions in deploy/console/clusterrole.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions(ProcessOptions):
    """Options of a console process."""

    host: str
    port: int
    allow_actions: bool
    token_file: Path | None


def run_console(options: ConsoleOptions) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""
    settings = _build_settings(options)

    async def assemble(process: Process) -> None:
        client = process.client
        with translate_cluster_errors("read from", _PERMISSION_HINT):
            await filter_readable(client, (TableSource("nodes"), TableSource("pods")))
            scheduler_names = await served_scheduler_names(client)
        console = build_with_contributions(
            lambda found: build_console(
                client,
                replace(settings, schedulers=scheduler_names),
                build_explainer(client),
                contributions=found,
                runtime_metrics=process.metrics,
            )
        )
        _bind_port(console, options)
        process.manager.add(*console.runnables)
        # With --token-file the token is known: keep it out of the log of a pod.
        if options.token_file is None or sys.stdout.isatty():
            typer.echo(f"The console is at {console.link}")

    run_process(NAME, options, assemble)


def _build_settings(options: ConsoleOptions) -> ConsoleSettings:
    file = options.token_file
    token = secrets.token_urlsafe(24) if file is None else read_or_create_token(file.expanduser())
    try:
        return ConsoleSettings(
            token=token,
            cluster=_cluster_name(options),
            host=options.host,
            port=options.port,
            allow_actions=options.allow_actions,
        )
    except ValueError as error:
        raise CommandFailed(f"{file}: {error}") from error


def _bind_port(console: Console, options: ConsoleOptions) -> None:
    try:
        console.bind()
    except OSError as error:
        raise CommandFailed(
            f"port {options.port} of {options.host} cannot be used ({format_bind_error(error)}): "
            "choose another with --port (0 for any free) or --host"
        ) from error


def read_or_create_token(file: Path) -> str:
    """The token in a file; if it does not exist, it is created with mode 0600."""
    try:
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as new:
                new.write(secrets.token_urlsafe(24) + "\n")
        return file.read_text().strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandFailed(f"--token-file {file} cannot be used: {reason}") from error


def _cluster_name(options: ConsoleOptions) -> str:
    """The name of the cluster in the page: that of the context."""
    if options.context is not None:
        return options.context
    files = (
        default_kubeconfig_files()
        if options.kubeconfig is None
        else [options.kubeconfig.expanduser()]
    )
    with translate_cluster_errors():
        return read_kubeconfig(files).current_context or _IN_CLUSTER_NAME
