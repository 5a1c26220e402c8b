"""The console as it lives in the cluster of `kilonova up`.

It looks at the cluster over a client without a socket, and listens on a port of its own.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from kilonova.cli.failure import CommandFailed
from kilonova.cli.options import UpOptions
from kilonova.cli.served import SERVED_IN_UP
from kilonova.console import Console, ConsoleSettings, Explain, Explained, build_console
from kilonova.console.gate import checked_token
from kilonova.kube import Part
from kilonova.kube.serving import why_not_had
from kilonova.local.cluster import Cluster
from kilonova.local.listener import PortInUse

USER = "system:serviceaccount:kilonova-system:kilonova-console"
"""As whom it acts: the account that it has where it is deployed."""
_CLUSTER = "kilonova"
_HIGHEST_PORT = 65535


class EmbeddedConsole:
    """A console that was asked for; there is a link to it when it has its port."""

    def __init__(self, options: UpOptions) -> None:
        self._options = options
        self._console: Console | None = None
        self._token = ""
        self._port = 0
        self._started = False

    @property
    def link(self) -> str | None:
        """What to open in a browser."""
        return self._console.link if self._console is not None else None

    def reserve(self, cluster: Cluster) -> None:
        """Take its port before anything is made; `PortInUse` says what to do about one that was
        asked for."""
        options = self._options
        self._token = _token(cluster)
        try:
            self._console = self._listening(cluster, self._token)
            self._port = self._console.bind()
        except OSError as error:
            raise PortInUse(
                f"port {options.console_port or 0} of {options.console_host} cannot be used for "
                f"the console ({why_not_had(error)}): choose another with --console-port N (0 "
                "takes a free one) or --console-host HOST, or do without it with --no-console"
            ) from error

    def parts(self, cluster: Cluster) -> Sequence[Part]:
        """What runs in the cluster: the console that has its port, and for a restart a new one on
        the same port."""
        assert self._console is not None
        assert cluster.folder is not None
        if self._started:
            self._console = self._bound(cluster, self._token, self._port)
        self._started = True
        cluster.folder.keep_console_token(self._token)
        return self._console.parts

    def _listening(self, cluster: Cluster, token: str) -> Console:
        asked, after = self._options.console_port, self._options.port + 1
        if asked is not None:
            return self._bound(cluster, token, asked)
        if 1 < after <= _HIGHEST_PORT:
            with suppress(OSError):  # somebody has it: any other will do
                return self._bound(cluster, token, after)
        return self._bound(cluster, token, 0)

    def _bound(self, cluster: Cluster, token: str, port: int) -> Console:
        settings = ConsoleSettings(
            token=token,
            cluster=_CLUSTER,
            host=self._options.console_host,
            port=port,
            allow_actions=self._options.allow_actions,
            schedulers=SERVED_IN_UP,
        )
        console = build_console(cluster.client(USER), settings, _explain(cluster))
        console.bind()
        return console


def _token(cluster: Cluster) -> str:
    folder = cluster.folder
    assert folder is not None
    try:
        return checked_token(folder.console_token())
    except ValueError as error:
        raise CommandFailed(
            f"{folder.token_file}: {error}: write such a one, or remove the file"
        ) from error


def _explain(cluster: Cluster) -> Explain:
    """What `kilonova why` says; what works it out is loaded when somebody asks."""

    @cache
    def loaded() -> Explain:
        from kilonova.cli.consolewhy import explainer

        return explainer(cluster.client(USER), cluster.clock.now)

    async def explain(namespace: str, name: str) -> Explained | None:
        return await loaded()(namespace, name)

    return explain
