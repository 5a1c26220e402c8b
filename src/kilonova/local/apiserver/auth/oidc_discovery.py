"""OpenID Connect discovery document and key set, for others to verify our tokens.

Served at `/.well-known/openid-configuration` and `/openid/v1/jwks`.
"""

from collections.abc import Sequence

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.auth.signing_keys import SigningKey

KEY_SET_PATH = "/openid/v1/jwks"


def discovery_document(issuer: str, server: str, keys: Sequence[SigningKey]) -> JsonObject:
    """The location of the keys of `issuer`; `server` is the host and port that clients reach."""
    return {
        "issuer": issuer,
        "jwks_uri": f"https://{server}{KEY_SET_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
    }


def jwks(keys: Sequence[SigningKey]) -> JsonObject:
    """The public keys; its media type is `application/jwk-set+json`."""
    return {"keys": [key.public_jwk() for key in keys]}
