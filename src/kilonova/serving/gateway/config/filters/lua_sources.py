"""Lua filters: the scripts beside this module, with the settings of a service."""

from functools import cache
from pathlib import Path

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.model import EnvoyResource

_SCRIPTS = Path(__file__).parent / "lua"

LuaValue = str | int | bool | dict[str, int]


def build_lua_filter(
    script: str,
    settings: dict[str, LuaValue],
    libraries: tuple[str, ...] = (),
    *,
    chooses_route: bool = True,
) -> EnvoyResource:
    """The filter of a script, which finds its settings in `SETTINGS`, after its libraries.

    Without `chooses_route` the route is not looked up again after the script changed headers.
    """
    pairs = ", ".join(f"{name} = {_format(value)}" for name, value in settings.items())
    sources = [f"local SETTINGS = {{ {pairs} }}", *map(_read_script, (*libraries, script))]
    return build_extension(
        script.replace("_", "-"),
        "envoy.extensions.filters.http.lua.v3.Lua",
        default_source_code={"inline_string": "\n".join(sources)},
        stat_prefix=script,
        **({} if chooses_route else {"clear_route_cache": False}),
    )


@cache
def _read_script(name: str) -> str:
    return (_SCRIPTS / f"{name}.lua").read_text(encoding="utf-8")


def _format(value: LuaValue) -> str:
    """A literal of Lua."""
    if isinstance(value, str):
        return '"' + "".join(map(_escape, value.encode())) + '"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"[{_format(k)}] = {v}" for k, v in value.items()) + " }"
    return str(value).lower()


def _escape(byte: int) -> str:
    """A byte of a string: escaped unless it is a plain character."""
    is_plain = 32 <= byte < 127 and chr(byte) not in '"\\'
    return chr(byte) if is_plain else f"\\{byte:03d}"
