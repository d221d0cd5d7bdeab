{{/* Names are fixed, as the operator's documentation and its Lease use them; what is cluster-wide carries the namespace. */}}
{{- define "headrace.name" -}}headrace-operator{{- end }}
{{- define "headrace.clusterName" -}}headrace-operator-{{ .Release.Namespace }}{{- end }}
{{- define "headrace.adminKeySecret" -}}{{ .Values.adminKey.existingSecret | default "headrace-admin-key" }}{{- end }}

{{- define "headrace.selectorLabels" -}}
app.kubernetes.io/name: headrace-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headrace.labels" -}}
{{ include "headrace.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: headrace
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "headrace.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* What the operator may do where InferenceServices live. Writing takes create and patch: server-side apply needs both. */}}
{{- define "headrace.serviceRules" -}}
- apiGroups: [headrace.dev]
  resources: [inferenceservices]
  verbs: [list, watch]
- apiGroups: [headrace.dev]
  resources: [inferenceservices/status]
  verbs: [patch]
# Where OwnerReferencesPermissionEnforcement is on, a child may block its owner's deletion only with this.
- apiGroups: [headrace.dev]
  resources: [inferenceservices/finalizers]
  verbs: [update]
# No delete anywhere: owner references clean up.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
# Only to tell who else scales a service; without it services are served all the same.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
{{- if .Values.monitoring.podMonitor.enabled }}
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, watch, create, patch]
{{- end }}
# patch marks a pod that is being drained; the admission policy allows those annotations alone.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
