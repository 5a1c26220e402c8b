"""Which requests a route takes."""

import re
from collections.abc import Iterable

from kilonova.api.serving import Route
from kilonova.serving.gateway.config.request_headers import MODEL_HEADER
from kilonova.serving.gateway.model import EnvoyResource
from kilonova.serving.gateway.stat_names import ServerPort


def build_match(route: Route, port: ServerPort) -> EnvoyResource:
    """The `match` of a route, for requests that go to one port of servers."""
    match: EnvoyResource = {"prefix": "/"}
    if port == "grpc":
        match["grpc"] = {}
    headers: list[EnvoyResource] = []
    if route.models:
        headers.append({"name": MODEL_HEADER, "string_match": match_any(route.models)})
    for header in route.headers:
        condition: EnvoyResource = (
            {"string_match": {"exact": header.value}} if header.value else {"present_match": True}
        )
        headers.append({"name": header.name, **condition})
    if headers:
        match["headers"] = headers
    return match


def select_model(match: EnvoyResource, model: str) -> EnvoyResource:
    """The part of a match that is for one model."""
    header = {"name": MODEL_HEADER, "string_match": {"exact": model}}
    others = [each for each in match.get("headers", ()) if each["name"] != MODEL_HEADER]
    return match | {"headers": [header, *others]}


def match_any(values: Iterable[str]) -> EnvoyResource:
    """A `StringMatcher` of any of some values."""
    values = list(values)
    if len(values) == 1:
        return {"exact": values[0]}
    return {"safe_regex": {"regex": "|".join(re.escape(each) for each in values)}}
