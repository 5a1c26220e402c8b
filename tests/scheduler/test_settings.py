"""Effects of scheduler settings."""

from kilonova.scheduler.score_plugins import build_scoring


def test_configured_weights_override_defaults_and_zero_disables() -> None:
    defaults = {plugin.name: plugin.weight for plugin in build_scoring({}).plugins}
    assert (defaults["topology"], defaults["fit"], defaults["balance"]) == (40, 35, 25)
    changed = {
        plugin.name: plugin.weight for plugin in build_scoring({"fit": 0, "balance": 70}).plugins
    }
    assert changed == {name: weight for name, weight in defaults.items() if name != "fit"} | {
        "balance": 70
    }
