"""The table of keys: complete, and consistent in itself."""

import pytest

from kilonova.serving.supersonic.findings import Findings
from kilonova.serving.supersonic.keys import ABSENT, KEYS, SECTIONS, Effect, ValueKey
from kilonova.serving.supersonic.values import build_defaults, load_values

_NAMES = """
nameOverride serverLoadMetric serverLoadThreshold
triton.replicas triton.image triton.command triton.args triton.resources triton.annotations
triton.nodeSelector triton.tolerations triton.affinity triton.modelRepository.enabled
triton.modelRepository.mountPath triton.modelRepository.storageType
triton.modelRepository.pvc.claimName triton.modelRepository.nfs.server
triton.modelRepository.nfs.path triton.service.labels triton.service.annotations
triton.service.ports triton.readinessProbe.reset triton.readinessProbe.initialDelaySeconds
triton.readinessProbe.periodSeconds triton.readinessProbe.failureThreshold
triton.readinessProbe.timeoutSeconds triton.readinessProbe.successThreshold
triton.readinessProbe.command triton.startupProbe.reset triton.startupProbe.initialDelaySeconds
triton.startupProbe.periodSeconds triton.startupProbe.failureThreshold triton.startupProbe.httpGet
envoy.enabled envoy.replicas envoy.image envoy.args envoy.external_config.load_from_configmap
envoy.external_config.configmap_name envoy.external_config.configmap_key envoy.resources
envoy.annotations envoy.nodeSelector envoy.tolerations envoy.service.type envoy.service.ports
envoy.ingress.enabled envoy.ingress.hostName envoy.ingress.ingressClassName
envoy.ingress.annotations envoy.grpc_route_timeout envoy.loadBalancerPolicy
envoy.rate_limiter.listener_level.enabled envoy.rate_limiter.listener_level.max_tokens
envoy.rate_limiter.listener_level.tokens_per_fill envoy.rate_limiter.listener_level.fill_interval
envoy.rate_limiter.prometheus_based.enabled envoy.rate_limiter.prometheus_based.luaConfig
envoy.auth.enabled envoy.auth.jwt_issuer envoy.auth.jwt_remote_jwks_uri envoy.auth.audiences
envoy.auth.url envoy.auth.port envoy.tracing_sampling_rate
keda.enabled keda.minReplicaCount keda.maxReplicaCount keda.zeroIdleReplicas
keda.scaleUp.stabilizationWindowSeconds keda.scaleUp.periodSeconds keda.scaleUp.stepsize
keda.scaleDown.stabilizationWindowSeconds keda.scaleDown.periodSeconds keda.scaleDown.stepsize
prometheus.external.enabled prometheus.external.url prometheus.external.port
prometheus.external.scheme prometheus.enabled prometheus.server.extraFlags
prometheus.server.useExistingClusterRoleName prometheus.server.releaseNamespace
prometheus.server.persistentVolume prometheus.server.resources prometheus.server.retention
prometheus.server.global.scrape_interval prometheus.server.global.evaluation_interval
prometheus.server.service prometheus.server.configMapOverrideName prometheus.server.ingress
prometheus.serviceAccounts prometheus.rbac prometheus.alertmanager prometheus.pushgateway
prometheus.kube-state-metrics prometheus.prometheus-node-exporter
prometheus.prometheus-pushgateway prometheus.configmapReload
grafana.enabled grafana.adminUser grafana.adminPassword grafana.persistence grafana.rbac
grafana.serviceAccount grafana.datasources grafana.dashboardProviders grafana.dashboardsConfigMaps
grafana."grafana.ini" grafana.resources grafana.ingress
tempo.enabled tempo.tempo tempo.resources
opentelemetry-collector.enabled opentelemetry-collector.image opentelemetry-collector.mode
opentelemetry-collector.resources opentelemetry-collector.ports opentelemetry-collector.config
metricsCollector.enabled metricsCollector.host metricsCollector.port metricsCollector.resources
metricsCollector.service.port metricsCollector.service.type metricsCollector.ingress.enabled
metricsCollector.ingress.hostName metricsCollector.ingress.ingressClassName
metricsCollector.ingress.annotations
"""


@pytest.mark.parametrize("name", _NAMES.split())
def test_every_key_of_supersonic_has_a_row(name: str) -> None:
    assert name in {each.name for each in KEYS.values()}


def test_no_key_is_in_two_sections() -> None:
    assert len(KEYS) == sum(len(keys) for _, keys in SECTIONS)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda each: each.name)
def test_every_row_says_what_the_key_means_and_does(key: ValueKey) -> None:
    assert key.meaning.endswith(".")
    assert key.here.endswith(".")
    if key.effect is Effect.HONOURED and key.default is not ABSENT and key.choices:
        assert key.default in key.choices


def test_the_defaults_are_valid_values_without_any_remark() -> None:
    findings = Findings()
    load_values(build_defaults(), findings)
    assert (findings.problems, findings.warnings) == ([], [])
