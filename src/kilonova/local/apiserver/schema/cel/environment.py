"""The CEL environments of the API server: Kubernetes' functions, and checks by its authorizer."""

from functools import cache

from kilonova.cel.environment import Environment
from kilonova.cel.functions import FUNCTIONS
from kilonova.local.apiserver.schema.cel.authorization import AUTHORIZATION

SERVER_FUNCTIONS = (*AUTHORIZATION, *FUNCTIONS)


@cache
def environment(
    variables: tuple[str, ...],
    *,
    optional_old_self: bool = False,
    nullable: tuple[str, ...] = (),
    bindings: bool = False,
) -> Environment:
    """The environment with these variables; cached."""
    return Environment(
        variables,
        SERVER_FUNCTIONS,
        optional_old_self=optional_old_self,
        nullable=nullable,
        bindings=bindings,
    )
