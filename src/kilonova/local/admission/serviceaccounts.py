"""A pod runs as a ServiceAccount that exists, and finds its token where programs look for it."""

import asyncio
from collections.abc import Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.auth.tokens import MOUNTED_SECONDS
from kilonova.local.clock import Identities
from kilonova.local.errors import forbidden
from kilonova.local.kinds.walk import objects, part
from kilonova.local.storage import Store

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"

_DEFAULT = "default"
_PATIENCE = 1.5
"""Seconds that a pod waits for the default account of a namespace that is just being made."""
_VOLUME = "kube-api-access-"
_MIRROR = "kubernetes.io/config.mirror"
_ONLY_OWN_SECRETS = "kubernetes.io/enforce-mountable-secrets"
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""


class _Account(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata
    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[_Reference, ...] | None = None
    secrets: tuple[_Reference, ...] | None = None


_decode = msgspec.json.Decoder(_Account).decode


class ServiceAccounts:
    """Gives each new pod its account, its token, and what the account has to pull images with."""

    def __init__(self, store: Store, identities: Identities) -> None:
        self._store = store
        self._accounts = store.collection("serviceaccounts")
        self._identities = identities

    async def mutate(self, attributes: Attributes) -> None:
        target, pod = attributes.target, attributes.obj
        if pod is None or attributes.operation != "CREATE" or target.subresource:
            return
        if target.kind.plural != "pods" or target.kind.group:
            return
        if _MIRROR in part(pod, "metadata", "annotations"):
            return  # it tells of a pod that a node runs already
        spec: JsonObject = pod["spec"]
        name: str = spec.get("serviceAccountName") or _DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attributes, name)
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.automount_service_account_token is not False
        if wanted:
            mount_token(spec, self._identities)
        if account.image_pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.name} for each in account.image_pull_secrets]
        notes = account.metadata.annotations
        if notes and notes.get(_ONLY_OWN_SECRETS) in _TRUE:
            _check_secrets(attributes, spec, name, account)

    async def _account(self, attributes: Attributes, name: str) -> _Account:
        namespace = attributes.target.namespace
        key = f"{namespace}/{name}"
        entry = self._store.newest(self._accounts, key)
        if entry is None and name == _DEFAULT:
            end = self._accounts.end
            until = asyncio.get_running_loop().time() + _PATIENCE
            await self._accounts.changed(end, until, ("key", key))
            entry = self._store.newest(self._accounts, key)
        if entry is None:
            raise _refused(
                attributes,
                f'error looking up service account {key}: serviceaccount "{name}" not found',
            )
        return _decode(entry.body)


def mount_token(spec: JsonObject, identities: Identities) -> None:
    """Mount a volume with token, authority and namespace where a container has nothing there."""
    volumes = objects(spec, "volumes")
    names = [each.get("name", "") for each in volumes]
    volume = next((each for each in names if each.startswith(_VOLUME)), "")
    name = volume or _VOLUME + identities.suffix()
    needed = False
    for container in (*objects(spec, "initContainers"), *objects(spec, "containers")):
        mounts = objects(container, "volumeMounts")
        if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    if needed and not volume:
        spec["volumes"] = [*volumes, {"name": name, "projected": _projected()}]


def _projected() -> JsonObject:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": MOUNTED_SECONDS, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": 420,
    }


def _check_secrets(attributes: Attributes, spec: JsonObject, name: str, account: _Account) -> None:
    """Of an account that says so, pods may use only the secrets that it lists."""
    own = {each.name for each in account.secrets or ()}
    ending = f"is not allowed because service account {name} does not reference that"
    for words, secret in _secrets_of(spec):
        if secret not in own:
            raise _refused(attributes, f'{words}secret.secretName="{secret}" {ending} secret')
    pulled = {each.name for each in account.image_pull_secrets or ()}
    for index, each in enumerate(objects(spec, "imagePullSecrets")):
        secret = each.get("name", "")
        if secret not in pulled:
            where = f'imagePullSecrets[{index}].name="{secret}"'
            raise _refused(attributes, f"{where} {ending} imagePullSecret")


def _secrets_of(spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Every secret that a pod uses, after the words that say where."""
    for volume in objects(spec, "volumes"):
        if "secret" in volume:
            yield "volume with ", volume["secret"].get("secretName", "")
    for kind, field in (("init container", "initContainers"), ("container", "containers")):
        for container in objects(spec, field):
            who = f"{kind} {container.get('name', '')} with"
            for env in objects(container, "env"):
                if reference := part(env, "valueFrom", "secretKeyRef"):
                    yield (
                        f"{who} envVar {env.get('name', '')} referencing ",
                        reference.get("name", ""),
                    )
            for source in objects(container, "envFrom"):
                if reference := part(source, "secretRef"):
                    yield f"{who} envFrom referencing ", reference.get("name", "")


def _refused(attributes: Attributes, detail: str) -> Exception:
    pod = attributes.obj or {}
    return forbidden("", "pods", part(pod, "metadata").get("name", ""), detail)
