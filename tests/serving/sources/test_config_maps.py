"""What a ConfigMap of a service says."""

import pytest

from kilonova.serving.sources.config_maps import read_config_map

SERVICE = """
kind: InferenceService
metadata: {name: sonic}
spec:
  servers: [{name: triton, runtime: Triton, %s}]
"""


def problems_of(data: dict[str, str]) -> tuple[str, ...]:
    config = read_config_map(data, "sonic", "cms", namespaced=True)
    assert config.spec is None
    return config.problems


def test_values_become_the_service_of_the_release() -> None:
    config = read_config_map(
        {"values.yaml": "nameOverride: sonic\ngrafana: {enabled: true}"}, "sonic", "cms"
    )
    assert config.spec is not None
    assert config.spec["monitoring"] == {"dashboards": True}
    assert dict(config.labels)["app.kubernetes.io/instance"] == "sonic"
    assert len(config.warnings) == 1


def test_a_service_is_taken_as_it_is() -> None:
    config = read_config_map({"service.yaml": SERVICE % "replicas: 2"}, "sonic", "cms")
    assert config.spec == {"servers": [{"name": "triton", "runtime": "Triton", "replicas": 2}]}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "data: write either values.yaml or service.yaml"),
        ({"values.yaml": "", "service.yaml": ""}, "data: write either values.yaml or service.yaml"),
        ({"values.yaml": "[1]"}, "values.yaml: write KEY: VALUE lines"),
        (
            {"values.yaml": "triton: {replicas: x}"},
            "triton.replicas: 'x' is invalid: write a whole number",
        ),
        (
            {"values.yaml": f"envoy: {{ingress: {{enabled: true, hostName: {254 * 'x'}}}}}"},
            "spec.gateway.ingress.host: a long text is invalid: write text, in quotes where YAML "
            'would read a number, as "1" of length <= 253',
        ),
        ({"service.yaml": "kind: Pod"}, "service.yaml: kind: write InferenceService"),
        (
            {"service.yaml": "kind: InferenceService\nmetadata: {name: other}"},
            "service.yaml: metadata.name: write sonic, as the ConfigMap is called",
        ),
        (
            {"service.yaml": "kind: InferenceService\nmetadata: {name: sonic}"},
            "service.yaml: spec: is missing: it is required",
        ),
        (
            {"service.yaml": "kind: InferenceService\nmetadata: {name: sonic}\nspec: {servers: 5}"},
            "service.yaml: spec.servers: 5 is invalid: write a list: [ … ]",
        ),
        (
            {"service.yaml": SERVICE % "replica: 2"},
            "service.yaml: spec.servers[0].replica: unknown field: do you mean replicas?",
        ),
        (
            {"service.yaml": SERVICE % "replicas: -2"},
            "service.yaml: spec.servers[0].replicas: -2 is invalid: write a whole number >= 0",
        ),
        (
            {"service.yaml": SERVICE % "modelRepository: {mountPath: /models}"},
            "service.yaml: spec.servers[0].modelRepository: set exactly one of "
            "persistentVolumeClaim, nfs, directory, cvmfs and objectStore",
        ),
        (
            {"service.yaml": SERVICE % "autoscaling: {minReplicas: 3, maxReplicas: 2}"},
            "service.yaml: spec.servers[0].autoscaling.minReplicas: minReplicas must not be "
            "greater than maxReplicas",
        ),
    ],
)
def test_a_problem_names_the_field_and_the_fix(data: dict[str, str], problem: str) -> None:
    assert problems_of(data) == (problem,)


def test_text_that_is_no_yaml_is_refused_with_its_line() -> None:
    (problem,) = problems_of({"values.yaml": "triton:\n  a: ["})
    assert problem.startswith("values.yaml is not YAML: ")
    assert "in line 2" in problem


def test_servers_of_several_pods_need_an_installation_on_the_cluster() -> None:
    template = (
        "entryClique: a, podCliqueSetTemplate: {cliques: [{name: a, spec: {roleName: a, %s}}]}"
    )
    text = SERVICE % (template % "podSpec: {containers: [{name: a, image: b}]}")
    assert read_config_map({"service.yaml": text}, "sonic", "cms").spec is not None
    (problem,) = read_config_map({"service.yaml": text}, "sonic", "cms", namespaced=True).problems
    assert problem.startswith("service.yaml: spec.servers[].podCliqueSetTemplate: ")
