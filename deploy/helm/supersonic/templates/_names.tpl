{{/* The name of the instance: of the InferenceService, and of its Service. */}}
{{- define "supersonic.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of what runs it, in the namespaced mode. */}}
{{- define "supersonic.controller" -}}
{{- printf "%s-kilonova" (include "supersonic.name" .) -}}
{{- end -}}

{{/* Labels of all objects of the release, as SuperSONIC has them. */}}
{{- define "supersonic.labels" -}}
app.kubernetes.io/name: supersonic
app.kubernetes.io/instance: {{ include "supersonic.name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Labels of the pods of what runs it. */}}
{{- define "supersonic.controllerLabels" -}}
app.kubernetes.io/name: kilonova-serving
app.kubernetes.io/instance: {{ include "supersonic.name" . }}
{{- end -}}

{{/* Labels of the pods of the servers. */}}
{{- define "supersonic.serverLabels" -}}
serving.kilonova.dev/inference-service: {{ include "supersonic.name" . }}
serving.kilonova.dev/server: triton
serving.kilonova.dev/entry: "true"
{{- end -}}

{{/* The ports of the servers. */}}
{{- define "supersonic.serverPorts" -}}
{{- $default := list (dict "name" "http" "port" 8000) (dict "name" "grpc" "port" 8001) (dict "name" "metrics" "port" 8002) -}}
{{- $servers := include "supersonic.servers" . | fromYaml -}}
{{- ($servers.service | default dict).ports | default $default | toYaml -}}
{{- end -}}

{{/* Labels or annotations: true and numbers are the texts that they are written as, as Kilonova reads
them. */}}
{{- define "supersonic.texts" -}}
{{- $texts := dict -}}
{{- range $key, $value := . -}}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) -}}
{{- $value = int64 $value -}}
{{- end -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $texts $key (toString $value) -}}
{{- end -}}
{{- end -}}
{{- toYaml $texts -}}
{{- end -}}

{{/* Who reads the ConfigMap: the Deployment of the release, or the installation on the cluster. */}}
{{- define "supersonic.source" -}}
{{- eq (toString .Values.mode) "cluster" | ternary "cluster" "true" -}}
{{- end -}}

{{/* The port of the gateways for gRPC. */}}
{{- define "supersonic.grpcPort" -}}
{{- $port := 8001 -}}
{{- range ((.Values.envoy | default dict).service | default dict).ports -}}
{{- if eq (toString .name) "grpc" -}}
{{- $port = .port -}}
{{- end -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/* Values of the servers, by either of their keys. */}}
{{- define "supersonic.servers" -}}
{{- .Values.triton | default .Values.inferenceServer | default dict | toYaml -}}
{{- end -}}
