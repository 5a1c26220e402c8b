"""The Secret of the gateways: what Envoy reads when it starts, and the token by which gateways
prove to the control plane whose they are. Pure."""

import base64

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.serving import names
from kilonova.serving.builders.gateway_pods import CONFIG_FILE
from kilonova.serving.builders.identity import Identity
from kilonova.serving.resources import DataObject

TOKEN_KEY = "token"  # noqa: S105 (the name of a key)


def read_token(secret: DataObject | None) -> str:
    """The token in a Secret; empty if it has none."""
    encoded = "" if secret is None else secret.data.get(TOKEN_KEY, "")
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return ""


def build_token_secret(identity: Identity, token: str) -> JsonObject:
    """The Secret as it is created: the token is kept from then on."""
    return {
        "metadata": _build_metadata(identity),
        "type": "Opaque",
        "data": {TOKEN_KEY: _encode(token)},
    }


def build_config_secret(identity: Identity, config: str) -> JsonObject:
    """What is applied to the Secret: Envoy's configuration, beside the token."""
    return {
        "metadata": _build_metadata(identity),
        "type": "Opaque",
        "data": {CONFIG_FILE: _encode(config)},
    }


def format_bootstrap(bootstrap: JsonObject) -> str:
    """A bootstrap as a file, which is YAML as well; the same for an equal bootstrap."""
    return msgspec.json.format(
        msgspec.json.encode(bootstrap, order="deterministic"), indent=1
    ).decode()


def _build_metadata(identity: Identity) -> JsonObject:
    return identity.build_metadata(names.build_gateway(identity.name), {names.ROLE: "gateway"})


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
