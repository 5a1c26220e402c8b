"""API keys in the Secret of a service: the name of a client, and the digest of its key."""

import hashlib
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

import msgspec

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.kube import Client, NotFound
from kilonova.serving.commands.cluster_access import get_service
from kilonova.serving.resources import INFERENCE_SERVICES, SECRETS, DataObject

_PREFIX = "kn-"
"""By it a key is recognised as one, where it should not be."""
_BYTES = 32
_SHOWN_DIGITS = 12
_is_client = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII).fullmatch
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)


class CreatedKey(msgspec.Struct, frozen=True):
    """A key, which is nowhere else."""

    key: str
    notes: tuple[str, ...] = ()


class KnownClient(msgspec.Struct, frozen=True):
    """A client that has a key."""

    client: str
    secret: str
    digest: str
    """The first digits."""


async def create_key(
    client: Client, name: str, namespace: str, owner: str, *, rotate: bool, require: bool
) -> CreatedKey:
    """Make a key for a client; `CommandFailed` if it has one, unless that is replaced."""
    if not _is_client(owner):
        raise WrongUsage(f"the client {owner!r}: use letters, digits, '-', '.' and '_'")
    service = await get_service(client, name, namespace)
    secret = _get_secret_name(service) or f"{name}-api-keys"
    found = await _read_secret(client, secret, namespace)
    if found is not None and owner in found.data and not rotate:
        raise CommandFailed(f"{owner} has a key already: replace it by --rotate")
    key = _PREFIX + secrets.token_urlsafe(_BYTES)
    digest = hashlib.sha256(key.encode()).hexdigest()
    data = {owner: b64encode(f"sha256:{digest}".encode()).decode()}
    if found is None:
        labels = {grove_names.MANAGED_BY: "kilonova-serve"}
        body: JsonObject = {"metadata": {"name": secret, "labels": labels}, "data": data}
        await client.create(SECRETS, body, namespace)
    else:
        await client.patch(SECRETS, secret, {"data": data}, namespace)
    return CreatedKey(key, await _require_keys(client, service, secret, require))


async def list_clients(client: Client, name: str, namespace: str) -> list[KnownClient]:
    """The clients that have keys."""
    secret, found = await _find_secret(client, name, namespace)
    data = {} if found is None else found.data
    return [KnownClient(each, secret, _read_digest(data[each])) for each in sorted(data)]


async def revoke_key(client: Client, name: str, namespace: str, owner: str) -> None:
    """Remove the key of a client; `CommandFailed` if it has none."""
    secret, found = await _find_secret(client, name, namespace)
    if found is None or owner not in found.data:
        known = ", ".join(sorted(found.data)) if found is not None else ""
        raise CommandFailed(f"{owner} has no key; there are keys of: {known or 'no client'}")
    await client.patch(SECRETS, secret, {"data": {owner: None}}, namespace)


async def _require_keys(
    client: Client, service: InferenceService, secret: str, require: bool
) -> tuple[str, ...]:
    if _get_secret_name(service):
        return ()
    known = service.metadata
    if not require:
        return (
            f"warning: {known.name} requires no keys yet: --require makes it require them, or set "
            f"spec.auth.apiKeys.secret: {secret}",
        )
    spec = {"auth": {"apiKeys": {"secret": secret}}}
    await client.patch(INFERENCE_SERVICES, known.name, {"spec": spec}, known.namespace)
    return (f"{known.name} requires keys of Secret {secret} from now on",)


async def _find_secret(client: Client, name: str, namespace: str) -> tuple[str, DataObject | None]:
    service = await get_service(client, name, namespace)
    secret = _get_secret_name(service) or f"{name}-api-keys"
    return secret, await _read_secret(client, secret, namespace)


async def _read_secret(client: Client, name: str, namespace: str) -> DataObject | None:
    try:
        return await client.get(SECRETS, name, namespace)
    except NotFound:
        return None


def _get_secret_name(service: InferenceService) -> str:
    auth = service.spec.auth
    return auth.api_keys.secret if auth is not None and auth.api_keys is not None else ""


def _read_digest(encoded: str) -> str:
    """The first digits of a digest; empty if the value is none."""
    try:
        found = _DIGEST.fullmatch(b64decode(encoded).decode().strip())
    except (Base64Error, UnicodeDecodeError):
        return ""
    return found[1][:_SHOWN_DIGITS] if found else ""
