"""ServiceAccounts."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.kinds.columns import AGE, NAME
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy

_ENFORCE_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"


@register_strategy("", "ServiceAccount")
class ServiceAccountStrategy(BuiltinStrategy):
    """The identity of pods."""

    returns_deleted_object = True
    columns = (NAME, AGE)

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        _drop_reference_details(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        _drop_reference_details(new)

    def warnings(self, obj: JsonObject) -> list[str]:
        if _ENFORCE_MOUNTABLE_SECRETS not in nested_object(obj, "metadata", "annotations"):
            return []
        return [
            f"metadata.annotations[{_ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; "
            "prefer separate namespaces to isolate access to mounted secrets"
        ]


def _drop_reference_details(account: JsonObject) -> None:
    """Secrets are in the account's own namespace: other fields of a reference are dropped."""
    if secrets := nested_objects(account, "secrets"):
        account["secrets"] = [{"name": each.get("name", "")} for each in secrets]
