"""The namespaced mode: services without CRDs, and without permissions beyond one namespace.

A service is a ConfigMap with the label `serving.kilonova.dev/service-config: "true"`. It has the
name of the service, and under `values.yaml` the values of a SuperSONIC release, or under
`service.yaml` an InferenceService. `ConfigMapTransport` presents such ConfigMaps to a client as
InferenceServices: caches, controllers and autoscaler are the same as on a cluster with the CRD. The
status is an annotation of the ConfigMap; objects of the service are owned by it.

On a cluster with the CRD, `releases` creates the InferenceService of a ConfigMap whose label is
`cluster`, so that one chart serves both; in either mode it says in an annotation what it refused,
and why.
"""

from kilonova.serving.sources.config_maps import ServiceConfig, read_config_map
from kilonova.serving.sources.transport import ConfigMapTransport

__all__ = ["ConfigMapTransport", "ServiceConfig", "read_config_map"]
