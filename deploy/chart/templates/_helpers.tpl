{{- define "flannel.labels" -}}
app: flannel
app.kubernetes.io/name: flannel
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end -}}

{{- define "flannel.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* net-conf.json (interop 2) */}}
{{- define "flannel.netconf" -}}
{{- $conf := dict "Backend" .Values.backend "EnableNFTables" .Values.enableNFTables -}}
{{- if .Values.podCidr -}}
{{- $_ := set $conf "Network" .Values.podCidr -}}
{{- else -}}
{{- $_ := set $conf "EnableIPv4" false -}}
{{- end -}}
{{- if .Values.podCidrv6 -}}
{{- $_ := set $conf "EnableIPv6" true -}}
{{- $_ := set $conf "IPv6Network" .Values.podCidrv6 -}}
{{- end -}}
{{ toPrettyJson $conf }}
{{- end -}}
