"""The console in the cluster of `kilonova up`.

It reads the cluster through an in-process client, and listens on a port of its own.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from kilonova.api.scheduling_names import EMBEDDED_SCHEDULER_NAMES
from kilonova.component.console.registered import build_with_contributions
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.component.failure import CommandFailed
from kilonova.console import Console, ConsoleSettings, Explain, Explained, build_console
from kilonova.console.web.token_auth import validate_token
from kilonova.kube import Runnable
from kilonova.kube.serving.http_server import format_bind_error
from kilonova.local.apiserver.server.listener import PortInUse
from kilonova.local.data_directory import DataDirectory

_MAX_PORT = 65535


def build_embedded_console(context: EmbeddedContext) -> EmbeddedComponent:
    """The console, which stays at its address when it is restarted."""
    console = EmbeddedConsole(context)
    return EmbeddedComponent(
        build_runnables=console.build_runnables,
        claim_ports=console.claim_port,
        link=lambda: console.link,
    )


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags of `kilonova up` for the console."""

    host: str
    port: int | None
    """None for the one after the API's, or any free one."""
    allow_actions: bool

    @classmethod
    def of(cls, context: EmbeddedContext) -> "_Flags":
        flags = context.flags
        port = flags.get("console-port")
        return cls(
            host=str(flags.get("console-host") or "127.0.0.1"),
            port=port if isinstance(port, int) else None,
            allow_actions=bool(flags.get("allow-actions")),
        )


class EmbeddedConsole:
    """A console to run; it has a link once its port is bound."""

    def __init__(self, context: EmbeddedContext) -> None:
        assert context.cluster.data_path is not None
        self._context = context
        self._flags = _Flags.of(context)
        self._directory = DataDirectory(context.cluster.data_path)
        self._console: Console | None = None
        self._token = ""
        self._port = 0
        self._started = False

    @property
    def link(self) -> str | None:
        """The URL to open in a browser, with the access token."""
        return self._console.link if self._console is not None else None

    def claim_port(self) -> None:
        """Bind the port before the cluster starts; `PortInUse` if the requested one is taken."""
        self._token = _read_token(self._directory)
        try:
            self._console = self._bind_preferred_port()
            self._port = self._console.bind()
        except OSError as error:
            raise PortInUse(
                f"port {self._flags.port or 0} of {self._flags.host} cannot be used for "
                f"the console ({format_bind_error(error)}): choose another with --console-port N "
                "(0 for any free) or --console-host HOST, or disable it with --no-console"
            ) from error

    def build_runnables(self) -> Sequence[Runnable]:
        """The runnables of the console; after a failure, those of a new one on the same port."""
        assert self._console is not None
        if self._started:
            self._console = self._build_bound_console(self._port)
        self._started = True
        self._directory.save_console_token(self._token)
        return self._console.runnables

    def _bind_preferred_port(self) -> Console:
        if self._flags.port is not None:
            return self._build_bound_console(self._flags.port)
        default = (urlsplit(self._context.cluster.url).port or 0) + 1
        if 1 < default <= _MAX_PORT:
            with suppress(OSError):  # in use: any free port will do
                return self._build_bound_console(default)
        return self._build_bound_console(0)

    def _build_bound_console(self, port: int) -> Console:
        settings = ConsoleSettings(
            token=self._token,
            cluster=self._context.cluster.name,
            host=self._flags.host,
            port=port,
            allow_actions=self._flags.allow_actions,
            schedulers=EMBEDDED_SCHEDULER_NAMES,
        )
        explain = _lazy_explainer(self._context)
        console = build_with_contributions(
            lambda found: build_console(
                self._context.client,
                settings,
                explain,
                contributions=found,
                problems=self._context.problems,
            )
        )
        console.bind()
        return console


def _read_token(directory: DataDirectory) -> str:
    try:
        return validate_token(directory.load_console_token())
    except ValueError as error:
        raise CommandFailed(
            f"{directory.token_file}: {error}: write a valid one, or remove the file"
        ) from error


def _lazy_explainer(context: EmbeddedContext) -> Explain:
    """The explainer of `kilonova why`, imported at the first request."""

    @cache
    def load_explainer() -> Explain:
        from kilonova.cli.why.console_explainer import build_explainer

        return build_explainer(context.client, context.cluster.clock.now)

    async def explain(namespace: str, name: str) -> Explained | None:
        return await load_explainer()(namespace, name)

    return explain
