"""What others need to verify our tokens: OpenID Connect's discovery document and key set.

Served at `/.well-known/openid-configuration` and `/openid/v1/jwks`.
"""

from collections.abc import Sequence

from kilonova.api.json import JsonObject
from kilonova.local.auth.keys import SigningKey

KEY_SET_PATH = "/openid/v1/jwks"


def discovery_document(issuer: str, server: str, keys: Sequence[SigningKey]) -> JsonObject:
    """Where the keys of `issuer` are; `server` is the host and port that clients reach."""
    return {
        "issuer": issuer,
        "jwks_uri": f"https://{server}{KEY_SET_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
    }


def key_set(keys: Sequence[SigningKey]) -> JsonObject:
    """The public keys; its media type is `application/jwk-set+json`."""
    return {"keys": [key.public_jwk() for key in keys]}
