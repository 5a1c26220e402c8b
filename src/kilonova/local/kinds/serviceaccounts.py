"""ServiceAccounts."""

from kilonova.api.json import JsonObject
from kilonova.local.kinds.columns import AGE, NAME
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import objects, part

_ONLY_OWN_SECRETS = "kubernetes.io/enforce-mountable-secrets"


@strategy("", "ServiceAccount")
class ServiceAccounts(Strategy):
    """Who a pod is."""

    shown_when_deleted = True
    columns = (NAME, AGE)

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        _keep_names_only(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        _keep_names_only(new)

    def warnings(self, obj: JsonObject) -> list[str]:
        if _ONLY_OWN_SECRETS not in part(obj, "metadata", "annotations"):
            return []
        return [
            f"metadata.annotations[{_ONLY_OWN_SECRETS}]: deprecated in v1.32+; prefer separate "
            "namespaces to isolate access to mounted secrets"
        ]


def _keep_names_only(account: JsonObject) -> None:
    """Secrets are of the account's own namespace: what else a reference says means nothing."""
    if secrets := objects(account, "secrets"):
        account["secrets"] = [{"name": each.get("name", "")} for each in secrets]
