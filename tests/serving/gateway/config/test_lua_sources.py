"""Settings of a service as literals of Lua."""

import pytest

from kilonova.serving.gateway.config.filters.lua_sources import LuaValue, build_lua_filter


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("x-api-key", '"x-api-key"'),
        ('a"b\\', '"a\\034b\\092"'),
        ("\n]] os.exit() --", '"\\010]] os.exit() --"'),
        ("é", '"\\195\\169"'),
        (7, "7"),
        (True, "true"),
        (False, "false"),
        ({'a"': 3, "b": 4}, '{ ["a\\034"] = 3, ["b"] = 4 }'),
        ({}, "{  }"),
    ],
)
def test_setting_is_a_literal_whatever_is_in_it(value: LuaValue, literal: str):
    built = build_lua_filter("tokens", {"it": value})
    source = built["typed_config"]["default_source_code"]["inline_string"]
    assert source.splitlines()[0] == f"local SETTINGS = {{ it = {literal} }}"
