"""Authentication and authorization of requests.

An `Authenticator` turns a request into a `User`, into None (anonymous), or into a 401. It accepts
client certificates whose chain TLS has verified, *static tokens* from a file, and *ServiceAccount
tokens*: signed by this server with a `SigningKey`, bound to an account (and perhaps to a pod, a
secret or a node), and valid only while those exist.

The `AuthorizationFilter` decides what a user may do, by an `Authorizer` (`rbac`): it turns a
`RequestInfo` into `AuthorizationAttributes`, applies impersonation, and allows the request or
raises 403.

Synchronous and without I/O; one event loop. Tokens are never logged nor stored: caches use their
digest.
"""

from kilonova.local.apiserver.auth.authenticator import Authenticator, allows_anonymous
from kilonova.local.apiserver.auth.authorization_filter import AuthorizationFilter
from kilonova.local.apiserver.auth.authorizer import (
    AuthorizationAttributes,
    AuthorizationDecision,
    Authorizer,
)
from kilonova.local.apiserver.auth.oidc_discovery import discovery_document, jwks
from kilonova.local.apiserver.auth.service_account_tokens import (
    BoundObjectRef,
    InvalidToken,
    IssuedToken,
    ServiceAccount,
    ServiceAccountTokenIssuer,
)
from kilonova.local.apiserver.auth.signing_keys import SigningKey
from kilonova.local.apiserver.auth.static_tokens import StaticTokens
from kilonova.local.apiserver.auth.user import MASTERS, User, user_info

__all__ = [
    "MASTERS",
    "Authenticator",
    "AuthorizationAttributes",
    "AuthorizationDecision",
    "AuthorizationFilter",
    "Authorizer",
    "BoundObjectRef",
    "InvalidToken",
    "IssuedToken",
    "ServiceAccount",
    "ServiceAccountTokenIssuer",
    "SigningKey",
    "StaticTokens",
    "User",
    "allows_anonymous",
    "discovery_document",
    "jwks",
    "user_info",
]
