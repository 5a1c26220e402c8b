"""Reads the Secrets that services refer to.

With `get`, by name, again and again. `list` and `watch` would let the process read all Secrets of
the cluster, as Kubernetes cannot limit them to names or labels that are not known in advance; a
Secret that is read by `get` alone must be named by an InferenceService of its own namespace. The
price is a read of each every ten seconds, and that a new certificate is used that much later.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kilonova.kube import Backoff, Client, Forbidden, Key, KubeError, NotFound
from kilonova.kube.admission.syntax import check_dns_subdomain
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.controlplane.references import SecretData
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.resources import SECRETS

_log = get_logger(__name__)

POLL_SECONDS = 10.0
_FIRST_RETRY_SECONDS = 0.1


@dataclass(slots=True)
class _Reference:
    services: set[ServiceKey] = field(default_factory=set[ServiceKey])
    content: SecretData | str | None = None
    """The data, why it could not be read, or None before the first answer."""
    failures: int = 0
    due: float = 0.0


class ReferencedSecrets:
    """Keeps the content of the Secrets that services refer to: a runnable.

    `on_change` is called with each service that a changed Secret concerns.
    """

    def __init__(
        self,
        client: Client,
        on_change: Callable[[ServiceKey], None],
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.name = "secrets of inference services"
        self._client = client
        self._on_change = on_change
        self._poll_seconds = poll_seconds
        self._backoff = Backoff(_FIRST_RETRY_SECONDS, poll_seconds)
        self._references: dict[Key, _Reference] = {}
        self._changed = asyncio.Event()

    def refer(self, service: ServiceKey, names: frozenset[str]) -> Mapping[str, SecretData | str]:
        """Follow these Secrets for a service from now on, and no others; returns what is known.

        A Secret that was not read yet is left out.
        """
        known: dict[str, SecretData | str] = {}
        for key, reference in list(self._references.items()):
            if service in reference.services and (key[0] != service[0] or key[1] not in names):
                reference.services.discard(service)
                if not reference.services:
                    del self._references[key]
        for name in names:
            reference = self._references.setdefault((service[0], name), _Reference())
            if service not in reference.services:
                reference.services.add(service)
                self._changed.set()
            if reference.content is not None:
                known[name] = reference.content
        return known

    async def run(self) -> None:
        """Read them whenever they are due."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            await self.read_due()
            next_due = min((each.due for each in self._references.values()), default=None)
            timeout = None if next_due is None else max(0.0, next_due - loop.time())
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def read_due(self) -> None:
        """Read those that are due now."""
        now = asyncio.get_running_loop().time()
        for key in [key for key, each in self._references.items() if each.due <= now]:
            await self._read(key)

    async def _read(self, key: Key) -> None:
        content = await self._get(key)
        reference = self._references.get(key)
        if reference is None:
            return
        self._schedule(reference, is_known=content is not None and not isinstance(content, str))
        if content is not None and content != reference.content:
            reference.content = content
            for service in list(reference.services):
                self._on_change(service)

    async def _get(self, key: Key) -> SecretData | str | None:
        """The data of a Secret, why there is none, or None if that is not known."""
        namespace, name = key
        if problem := check_dns_subdomain(name):
            return f"cannot exist: its name {problem}"
        try:
            return (await self._client.get(SECRETS, name, namespace)).data
        except NotFound:
            return "does not exist"
        except Forbidden as error:
            return f"cannot be read: {error}"
        except KubeError as error:
            # What was read before stays in use; without it the gateway keeps what it has.
            _log.warning("Secret not read", secret="/".join(key), error=str(error))
            return None

    def _schedule(self, reference: _Reference, *, is_known: bool) -> None:
        reference.failures = 0 if is_known else reference.failures + 1
        delay = self._poll_seconds if is_known else self._backoff.delay(reference.failures)
        reference.due = asyncio.get_running_loop().time() + delay
