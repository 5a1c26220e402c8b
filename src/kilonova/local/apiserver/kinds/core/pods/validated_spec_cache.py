"""A cache of pod specs that passed validation.

Many pods are created from few templates, and validating the spec is the most expensive part of
creating one. The cache key excludes what differs between pods of a template: the name of the token
volume, which is replaced, and node name and hostname, which are validated each time.
"""

import re
from collections.abc import Callable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError

SpecValidator = Callable[[JsonObject], list[FieldError]]

_TOKEN_VOLUME = re.compile(rb"kube-api-access-[a-z0-9]{5}")
_PER_POD_FIELDS = ("nodeName", "hostname")
_CACHE_SIZE = 512


class ValidatedSpecCache:
    """Holds the most recently validated specs, as JSON text."""

    def __init__(self) -> None:
        self._valid_specs: set[bytes] = set()

    def validate(self, spec: JsonObject, validate_spec: SpecValidator) -> list[FieldError]:
        """The errors of `validate_spec`, which is not called for a spec equal to a valid one."""
        text = _cache_key(spec)
        if text in self._valid_specs:
            return []
        problems = validate_spec(spec)
        if not problems:
            if len(self._valid_specs) >= _CACHE_SIZE:
                self._valid_specs.clear()
            self._valid_specs.add(text)
        return problems


def _cache_key(spec: JsonObject) -> bytes:
    placeholders = {name: "own" for name in _PER_POD_FIELDS if spec.get(name)}
    text = msgspec.json.encode({**spec, **placeholders})
    volumes = set(_TOKEN_VOLUME.findall(text))
    # JSON text contains no zero byte: the replacement is unambiguous.
    return text.replace(volumes.pop(), b"\0") if len(volumes) == 1 else text
