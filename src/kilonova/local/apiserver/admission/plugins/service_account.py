"""ServiceAccount: sets the account of a pod, and mounts its token at the standard path."""

import asyncio
from collections.abc import Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import forbidden
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.auth.service_account_tokens import MOUNTED_TOKEN_SECONDS
from kilonova.local.apiserver.storage import RevisionStore
from kilonova.local.clock import IdGenerator

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"

_DEFAULT = "default"
_ACCOUNT_WAIT_SECONDS = 1.5
"""How long a pod waits for the default account of a namespace that is being created."""
_ACCESS_VOLUME_PREFIX = "kube-api-access-"
_MIRROR_POD_ANNOTATION = "kubernetes.io/config.mirror"
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


class ServiceAccountPlugin:
    """Sets the account, the token volume and the image pull secrets of each new pod."""

    def __init__(self, store: RevisionStore, id_generator: IdGenerator) -> None:
        self._store = store
        self._service_accounts = store.collection("serviceaccounts")
        self._id_generator = id_generator

    async def mutate(self, attributes: Attributes) -> None:
        target, pod = attributes.target, attributes.obj
        if pod is None or attributes.operation != "CREATE" or target.subresource:
            return
        if target.kind.plural != "pods" or target.kind.group:
            return
        if _MIRROR_POD_ANNOTATION in nested_object(pod, "metadata", "annotations"):
            return  # a mirror pod describes a pod that a node already runs
        spec: JsonObject = pod["spec"]
        name: str = spec.get("serviceAccountName") or _DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._wait_for_account(attributes, name)
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.automount_service_account_token is not False
        if automount:
            mount_token(spec, self._id_generator)
        if account.image_pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.name} for each in account.image_pull_secrets]
        notes = account.metadata.annotations
        if notes and notes.get(_ONLY_OWN_SECRETS) in _TRUE:
            _check_secrets(attributes, spec, name, account)

    async def _wait_for_account(self, attributes: Attributes, name: str) -> _Account:
        namespace = attributes.target.namespace
        key = f"{namespace}/{name}"
        entry = self._store.newest_entry(self._service_accounts, key)
        if entry is None and name == _DEFAULT:
            cursor = self._service_accounts.end_cursor
            until = asyncio.get_running_loop().time() + _ACCOUNT_WAIT_SECONDS
            await self._service_accounts.wait_changed(cursor, until, ("key", key))
            entry = self._store.newest_entry(self._service_accounts, key)
        if entry is None:
            raise _forbidden(
                attributes,
                f'error looking up service account {key}: serviceaccount "{name}" not found',
            )
        return _decode(entry.body)


def mount_token(spec: JsonObject, id_generator: IdGenerator) -> None:
    """Mount a volume with token, CA and namespace in containers without one."""
    volumes = nested_objects(spec, "volumes")
    names = [each.get("name", "") for each in volumes]
    volume = next((each for each in names if each.startswith(_ACCESS_VOLUME_PREFIX)), "")
    name = volume or _ACCESS_VOLUME_PREFIX + id_generator.name_suffix()
    needed = False
    for container in (*nested_objects(spec, "initContainers"), *nested_objects(spec, "containers")):
        mounts = nested_objects(container, "volumeMounts")
        if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    if needed and not volume:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume_source()}]


def _token_volume_source() -> JsonObject:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": MOUNTED_TOKEN_SECONDS, "path": "token"}},
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
    """Pods of an account that enforces it may use only the secrets that it lists."""
    own = {each.name for each in account.secrets or ()}
    ending = f"is not allowed because service account {name} does not reference that"
    for description, secret in _secret_references(spec):
        if secret not in own:
            raise _forbidden(
                attributes, f'{description}secret.secretName="{secret}" {ending} secret'
            )
    pulled = {each.name for each in account.image_pull_secrets or ()}
    for index, each in enumerate(nested_objects(spec, "imagePullSecrets")):
        secret = each.get("name", "")
        if secret not in pulled:
            where = f'imagePullSecrets[{index}].name="{secret}"'
            raise _forbidden(attributes, f"{where} {ending} imagePullSecret")


def _secret_references(spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Every secret that a pod uses, after a description of where."""
    for volume in nested_objects(spec, "volumes"):
        if "secret" in volume:
            yield "volume with ", volume["secret"].get("secretName", "")
    for kind, field in (("init container", "initContainers"), ("container", "containers")):
        for container in nested_objects(spec, field):
            container_name = f"{kind} {container.get('name', '')} with"
            for env in nested_objects(container, "env"):
                if reference := nested_object(env, "valueFrom", "secretKeyRef"):
                    yield (
                        f"{container_name} envVar {env.get('name', '')} referencing ",
                        reference.get("name", ""),
                    )
            for source in nested_objects(container, "envFrom"):
                if reference := nested_object(source, "secretRef"):
                    yield f"{container_name} envFrom referencing ", reference.get("name", "")


def _forbidden(attributes: Attributes, detail: str) -> Exception:
    pod = attributes.obj or {}
    return forbidden("", "pods", nested_object(pod, "metadata").get("name", ""), detail)
