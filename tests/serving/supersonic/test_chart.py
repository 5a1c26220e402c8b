"""The chart of SuperSONIC's shape: it takes their values files, and says what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.serving.admission.validation import validate_service
from kilonova.serving.sources import read_config_map
from kilonova.serving.supersonic import ValuesError, convert_values, read_values
from tests.serving.supersonic.helm_chart import (
    CHART,
    EXAMPLES,
    NAMESPACE,
    RELEASE,
    HelmFailed,
    render,
    run_helm,
)
from tools.supersonic_values import render_files
from tools.tables import ROOT

_OF_HELM = {"app.kubernetes.io/managed-by", "helm.sh/chart"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda each: each.stem)
def test_the_service_of_a_release_is_what_the_values_file_converts_to(
    path: Path, tmp_path: Path
) -> None:
    manifests = render(tmp_path, "--values", str(path))
    config_map = manifests["ConfigMap", RELEASE]
    assert config_map["metadata"]["labels"]["serving.kilonova.dev/service-config"] == "true"
    config = read_config_map(config_map["data"], RELEASE, NAMESPACE)
    conversion = convert_values(read_values(path), RELEASE, NAMESPACE)
    assert config.spec == conversion.service["spec"]
    assert config.warnings == conversion.warnings


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda each: each.stem)
def test_the_chart_has_the_objects_of_the_conversion(path: Path, tmp_path: Path) -> None:
    manifests = render(tmp_path, "--values", str(path), "--set", "mode=cluster")
    objects = convert_values(read_values(path), RELEASE, NAMESPACE).objects
    wanted = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert set(manifests) == {("ConfigMap", RELEASE), *wanted}
    labels = manifests["ConfigMap", RELEASE]["metadata"]["labels"]
    assert labels["serving.kilonova.dev/service-config"] == "cluster"
    for key, each in wanted.items():
        assert drop_labels_of_helm(manifests[key]) == each


def drop_labels_of_helm(manifest: Any) -> Any:
    labels = manifest["metadata"]["labels"]
    kept = {key: value for key, value in labels.items() if key not in _OF_HELM}
    return {**manifest, "metadata": {**manifest["metadata"], "labels": kept}}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda each: each.stem)
def test_lint_finds_nothing(path: Path, tmp_path: Path) -> None:
    run_helm(tmp_path, "lint", str(CHART), "--strict", "--values", str(path))


def test_the_namespaced_mode_has_no_object_beyond_its_namespace(tmp_path: Path) -> None:
    manifests = render(tmp_path)
    assert all(each["metadata"]["namespace"] == NAMESPACE for each in manifests.values())
    kinds = {kind for kind, _ in manifests}
    assert not any(each.startswith("Cluster") or "Definition" in each for each in kinds)
    assert ("Deployment", f"{RELEASE}-kilonova") in manifests


def test_rights_for_kinds_of_others_are_asked_for_only_where_they_are_used(tmp_path: Path) -> None:
    def groups_of(*words: str) -> set[str]:
        rules = render(tmp_path, *words)["Role", f"{RELEASE}-kilonova"]["rules"]
        return {group for rule in rules for group in rule["apiGroups"] if "." in group}

    extras = {"monitoring.coreos.com", "keda.sh"}
    assert not groups_of() & extras
    assert groups_of("--set", "prometheus.enabled=true") & extras == {"monitoring.coreos.com"}
    assert groups_of("--set", "kilonova.scaler=ScaledObject") & extras == {"keda.sh"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("envoy.replcas=2", "envoy: Additional property replcas is not allowed"),
        ("keda.scaleUp.x=1", '"periodSeconds", "stabilizationWindowSeconds", "stepsize"'),
        ("triton.annotations.a.b=c", "triton.annotations.a: Invalid type"),
        ("metricsCollector.port=70000", "metricsCollector.port: Must be less than or equal to"),
        ("nameOverride=4ever", 'nameOverride: "4ever" cannot be the name of a Service'),
        (f"nameOverride={49 * 'a'}", "has 49 characters, and the names of its objects leave 48"),
        (
            f"nameOverride={46 * 'a'},metricsCollector.enabled=true",
            "has 46 characters, and the names of its objects leave 45",
        ),
        (
            f"nameOverride={33 * 'a'},mode=cluster",
            "has 33 characters, and the names of its objects leave 32",
        ),
        ("kilonova.image=", "kilonova.image is required"),
        ("triton.replicas=many", "triton.replicas: Invalid type"),
        ("keda.maxReplicaCount=0", "keda.maxReplicaCount: Must be greater than or equal to 1"),
        ("envoy.loadBalancerPolicy=BEST", "envoy.loadBalancerPolicy must be one of"),
        ("autoscaler.enabled=true", "autoscaler: Write `keda`"),
        ("prometheus.url=x", "prometheus.url: Write `prometheus.external.url`"),
        (
            "envoy.rate_limiter.prometheus_based.luaConfig=mine.lua",
            "envoy.rate_limiter.prometheus_based.luaConfig: There is no Lua filter",
        ),
    ],
)
def test_what_cannot_be_honoured_ends_the_installation(
    setting: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(HelmFailed) as failure:
        render(tmp_path, "--set", setting)
    assert words in failure.value.message


def test_the_default_of_a_refused_key_is_accepted(tmp_path: Path) -> None:
    key = "envoy.rate_limiter.prometheus_based.luaConfig"
    assert render(tmp_path, "--set", f"{key}=cfg/envoy-filter.lua")


def test_an_instance_may_have_another_name(tmp_path: Path) -> None:
    manifests = render(tmp_path, "--set", "nameOverride=other")
    config_map = manifests["ConfigMap", "other"]
    config = read_config_map(config_map["data"], "other", NAMESPACE)
    assert dict(config.labels)["app.kubernetes.io/instance"] == "other"


@pytest.mark.parametrize("words", [(), ("--set", "mode=cluster")], ids=["namespaced", "cluster"])
def test_a_release_has_the_longest_name_that_its_objects_allow(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    limit = 32 if words else 48
    assert render(tmp_path, *words, release=limit * "a")
    with pytest.raises(HelmFailed, match=f"leave {limit}"):
        render(tmp_path, *words, release=(limit + 1) * "a")
    if words:
        assert validate_named(limit * "a") == ()
        (error,) = validate_named((limit + 1) * "a")
        assert "the names of its pods leave" in str(error)
    else:
        assert convert_values({}, limit * "a", NAMESPACE)
        with pytest.raises(ValuesError, match=f"leaves {limit}"):
            convert_values({}, (limit + 1) * "a", NAMESPACE)


def validate_named(name: str) -> tuple[object, ...]:
    return validate_service(convert_values({}, name, NAMESPACE).service).errors


@pytest.mark.parametrize(
    "section",
    [
        *("triton", "envoy", "keda", "prometheus", "grafana", "metricsCollector", "mode"),
        *("triton.service", "triton.service.labels", "triton.replicas"),
        *("envoy.service", "envoy.ingress", "metricsCollector.service", "kilonova.scaler"),
    ],
)
def test_a_section_of_which_nothing_is_written_has_its_defaults(
    section: str, tmp_path: Path
) -> None:
    collector = () if section == "metricsCollector" else ("--set", "metricsCollector.enabled=true")
    manifests = render(tmp_path, *collector, "--set-json", f"{section}=null")
    plain = render(tmp_path, *collector)
    assert {key: each for key, each in manifests.items() if key[0] != "ConfigMap"} == {
        key: each for key, each in plain.items() if key[0] != "ConfigMap"
    }
    config = read_config_map(manifests["ConfigMap", RELEASE]["data"], RELEASE, NAMESPACE)
    assert config.problems == ()


def test_labels_and_annotations_need_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(
        """
        triton: {service: {labels: {scrape: true}, annotations: {number: 1234567, f: 0.5, z: null}}}
        metricsCollector:
          enabled: true
          ingress: {enabled: true, hostName: m.example.org, annotations: {a: true}}
        kilonova: {nodeSelector: {gpu: false}}
        """
    )
    manifests = render(tmp_path, "--values", str(path))
    for each in convert_values(read_values(path), RELEASE, NAMESPACE).objects:
        found = manifests[each["kind"], each["metadata"]["name"]]
        assert drop_labels_of_helm(found) == each
    controller = manifests["Deployment", f"{RELEASE}-kilonova"]
    assert controller["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "false"}
    labels = manifests["Service", f"{RELEASE}-triton"]["metadata"]
    assert labels["labels"]["scrape"] == "true"
    assert labels["annotations"] == {"number": "1234567", "f": "0.5"}


def test_all_that_the_process_writes_for_itself_is_deleted_with_the_release(tmp_path: Path) -> None:
    manifests = render(tmp_path)
    assert "data" not in manifests["Secret", f"{RELEASE}-kilonova"]
    assert "spec" not in manifests["Lease", f"{RELEASE}-kilonova"]


def test_the_controller_runs_where_the_release_may(tmp_path: Path) -> None:
    words = ("--set", "kilonova.image=registry.example.org/kilonova:1")
    words += ("--set", "kilonova.nodeSelector.zone=x", "--set", "kilonova.tolerations[0].key=k")
    pod = render(tmp_path, *words)["Deployment", f"{RELEASE}-kilonova"]["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"zone": "x"}, [{"key": "k"}])
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.org/kilonova:1"
    assert "--model-server-image=registry.example.org/kilonova:1" in container["args"]


def test_no_password_is_written_to_the_config_map(tmp_path: Path) -> None:
    manifests = render(tmp_path, "--set", "grafana.enabled=true,grafana.adminPassword=hunter2")
    assert "hunter2" not in json.dumps(list(manifests.values()))


def test_generated_files_are_fresh() -> None:
    for path, content in render_files().items():
        hint = "run `python -m tools.supersonic_values`"
        assert (ROOT / path).read_bytes() == content, f"{path} is stale: {hint}"


def test_the_schema_accepts_what_the_conversion_accepts() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    own = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(own) <= set(schema["properties"])
    assert (
        own["kilonova"]["image"]
        == schema["properties"]["kilonova"]["properties"]["image"]["default"]
    )
    assert (
        own["kilonova"]["resources"]
        == schema["properties"]["kilonova"]["properties"]["resources"]["default"]
    )
