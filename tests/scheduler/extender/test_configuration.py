"""The example configuration for kube-scheduler lists every resource by which a pod can request
GPUs."""

from pathlib import Path
from typing import Any

import yaml

from kilonova.catalog.mig import known_geometries
from kilonova.catalog.resource_names import profile_of_resource
from kilonova.scheduler.extender.configuration import extender_entry, managed_resources

DEPLOY = Path(__file__).parents[3] / "deploy" / "extender"


def _example() -> Any:
    (entry,) = yaml.safe_load((DEPLOY / "scheduler-config.yaml").read_text())["extenders"]
    return entry


def test_no_mig_profile_of_any_known_device_is_missing() -> None:
    requested_profiles = {profile_of_resource(name) for name in managed_resources()[1:]}
    for geometry in known_geometries():
        assert {profile.name for profile in geometry.profiles} <= requested_profiles
        assert {alias for alias, _ in geometry.aliases} <= requested_profiles
    assert managed_resources()[0] == "nvidia.com/gpu"
    assert "nvidia.com/mig-1g.10gb.me" in managed_resources()
    assert len(set(managed_resources())) == len(managed_resources())


def test_example_configuration_is_up_to_date() -> None:
    example = _example()
    tls = example["tlsConfig"]
    assert example == extender_entry(example["urlPrefix"], tls)
    assert (example["weight"], example["nodeCacheCapable"], example["ignorable"]) == (
        1,
        True,
        False,
    )


def test_example_url_matches_the_deployed_service() -> None:
    service = yaml.safe_load((DEPLOY / "service.yaml").read_text())
    deployment = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    name, namespace = (service["metadata"][each] for each in ("name", "namespace"))
    (port,) = service["spec"]["ports"]
    assert _example()["urlPrefix"] == f"https://{name}.{namespace}.svc:{port['port']}"
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
    assert ports[port["targetPort"]] == port["port"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
