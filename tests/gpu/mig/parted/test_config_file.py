"""mig-parted's files: read, written, and generated like NVIDIA's."""

import pytest

from kilonova.catalog.mig import known_geometries
from kilonova.gpu.mig.parted.config_file import (
    ConfigRule,
    InvalidConfigFile,
    format_config_file,
    parse_config_file,
)
from kilonova.gpu.mig.parted.default_configs import generate_configs
from tests.catalog.mig_states import part

EXAMPLE = """
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-enabled:
    - devices: all
      mig-enabled: true
      mig-devices: {}
  custom:
    - device-filter: "0x20B710DE"
      devices: [0, 2]
      mig-enabled: true
      mig-devices:
        "1g.6gb": 2
        2g.12gb: 1
    - device-filter: ["0x233010DE", 0x233110DE]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb+me": 1, "3g.40gb": 1}
"""


def test_file_is_read_to_the_field() -> None:
    configs = parse_config_file(EXAMPLE)
    assert configs["all-disabled"] == (ConfigRule(False),)
    assert configs["all-enabled"] == (ConfigRule(True),)
    assert configs["custom"] == (
        ConfigRule(True, (("1g.6gb", 2), ("2g.12gb", 1)), (0x20B710DE,), (0, 2)),
        ConfigRule(True, (("1g.10gb+me", 1), ("3g.40gb", 1)), (0x233010DE, 0x233110DE)),
    )


def test_what_is_written_is_read_back() -> None:
    configs = parse_config_file(EXAMPLE)
    assert parse_config_file(format_config_file(configs)) == configs
    generated = generate_configs()
    assert parse_config_file(format_config_file(generated)) == generated


def rule(text: str) -> str:
    return f"version: v1\nmig-configs:\n  one:\n  - {{{text}}}\n"


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("[", "file", "expected"),
        ("7", "file", "must be a mapping"),
        ("version: v2\nmig-configs: {}", "version", "'v2' is not supported; write version: v1"),
        ("version: v1\nmig-configs: {}", "mig-configs", "at least one config"),
        ("version: v1\nmigs: {}", "migs", "unknown field"),
        ("version: v1\nmig-configs: {a: []}", "mig-configs.a", "at least one rule"),
        (rule("mig-enabled: false"), "mig-configs.one[0].devices", "is required"),
        (rule("devices: all"), "mig-configs.one[0].mig-enabled", "is required"),
        (rule("devices: some, mig-enabled: false"), "devices", "'some' is neither 'all' nor"),
        (rule("devices: [a], mig-enabled: false"), "devices", "list of indices"),
        (rule("devices: all, mig-enabled: yep"), "mig-enabled", "neither true nor false"),
        (rule("devices: all, mig-enabled: true"), "mig-devices", "is required where"),
        (
            rule("devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}"),
            "mig-devices",
            "needs mig-enabled: true",
        ),
        (
            rule("devices: all, mig-enabled: true, mig-devices: {big: 1}"),
            "mig-devices.big",
            "is no MIG profile",
        ),
        (
            rule("devices: all, mig-enabled: true, mig-devices: {1c.2g.10gb: 1}"),
            "mig-devices.1c.2g.10gb",
            "write 2g.10gb",
        ),
        (
            rule("devices: all, mig-enabled: true, mig-devices: {1g.10gb: -1}"),
            "mig-devices.1g.10gb",
            "-1 is no number",
        ),
        (
            rule("devices: all, mig-enabled: false, device-filter: H100"),
            "device-filter",
            "'H100' is no PCI device",
        ),
        (rule("devices: all, mig-enabled: false, mode: x"), "mode", "unknown; known are"),
    ],
)
def test_error_names_the_field_and_the_fix(text: str, where: str, problem: str) -> None:
    with pytest.raises(InvalidConfigFile) as error:
        parse_config_file(text)
    assert where in str(error.value)
    assert problem in str(error.value)


def applied(name: str, pci_id: int) -> dict[str, int]:
    """What a generated config gives a device with this PCI id."""
    for each in generate_configs()[name]:
        if not each.device_filter or pci_id in each.device_filter:
            return dict(each.mig_devices)
    return {}


@pytest.mark.parametrize(
    ("name", "pci_id", "instances"),
    [
        # As in NVIDIA's config-default.yaml.
        ("all-1g.5gb", 0x20B010DE, {"1g.5gb": 7}),
        ("all-1g.5gb.me", 0x20B010DE, {"1g.5gb+me": 1}),
        ("all-1g.10gb", 0x233010DE, {"1g.10gb": 7}),
        ("all-1g.10gb", 0x20B110DE, {"1g.10gb": 4}),
        ("all-1g.24gb", 0x232110DE, {"1g.24gb": 4}),
        ("all-2g.24gb", 0x232110DE, {"2g.24gb": 3}),
        ("all-1g.24gb.gfx", 0x2BB510DE, {"1g.24gb+gfx": 4}),
        ("all-1g.24gb-me", 0x2BB510DE, {"1g.24gb-me": 4}),
        ("all-1g.18gb", 0x233510DE, {"1g.18gb": 7}),
        ("all-3g.71gb", 0x233510DE, {"3g.71gb": 2}),
        ("all-7g.141gb", 0x233B10DE, {"7g.141gb": 1}),
        ("all-1g.6gb", 0x20B710DE, {"1g.6gb": 4}),
        ("all-4g.90gb", 0x290110DE, {"4g.90gb": 1}),
        ("all-balanced", 0x233010DE, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        ("all-balanced", 0x20F610DE, {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}),
        ("all-balanced", 0x233510DE, {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}),
        ("all-balanced", 0x234810DE, {"1g.18gb": 2, "2g.36gb": 1, "3g.72gb": 1}),
        ("all-balanced", 0x290110DE, {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1}),
        ("all-balanced", 0x20B710DE, {"1g.6gb": 2, "2g.12gb": 1}),
        ("all-balanced", 0x2BB510DE, {"1g.24gb": 2, "2g.48gb": 1}),
    ],
)
def test_generated_configs_are_those_of_nvidia(
    name: str, pci_id: int, instances: dict[str, int]
) -> None:
    assert applied(name, pci_id) == instances


def test_configs_of_one_product_need_no_filter() -> None:
    configs = generate_configs([part("H100-80GB")])
    assert list(configs)[:3] == ["all-disabled", "all-enabled", "all-balanced"]
    assert "all-1g.5gb" not in configs
    assert all(not each.device_filter for rules in configs.values() for each in rules)


def test_every_profile_of_the_catalog_has_a_config() -> None:
    configs = generate_configs()
    for geometry in known_geometries():
        for profile in geometry.profiles:
            assert f"all-{profile.name.replace('+', '.')}" in configs
