{{- define "flannel.labels" -}}
app: flannel
app.kubernetes.io/name: flannel
app.kubernetes.io/version: {{ .Chart.AppVersion | toYaml }}
{{- end -}}

{{/* "yes" for upstream's image, in whose place the default image runs. */}}
{{- define "flannel.upstreamImage" -}}
{{- if regexMatch "(flannel-io|coreos|flannelcni)/flannel$|^(docker\\.io/)?flannel/flannel$" .Values.flannel.image.repository -}}
yes
{{- end -}}
{{- end -}}

{{- define "flannel.image" -}}
{{- if include "flannel.upstreamImage" . -}}
{{ include "flannel.repository" . }}:{{ .Chart.AppVersion }}
{{- else -}}
{{ .Values.flannel.image.repository }}:{{ .Values.flannel.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* "yes" if the daemon may need /dev/net/tun: wireguard does where the kernel has none. */}}
{{- define "flannel.tun" -}}
{{- if has .Values.flannel.backend (list "udp" "wireguard") -}}
yes
{{- end -}}
{{- end -}}

{{/* Refuses what would install a network that cannot work. The schema refuses the rest. */}}
{{- define "flannel.check" -}}
{{- $backends := include "flannel.backends" . | fromJson -}}
{{- with .Values.flannel -}}
{{- if not (hasKey $backends .backend) -}}
{{- fail (printf "flannel.backend is %q: in a container this flannel has %s; see docs/kubernetes.md" .backend (keys $backends | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $args := concat .args (.extraArgs | default list) -}}
{{- if not (or (has "--kube-subnet-mgr" $args) (has "--kube-subnet-mgr=true" $args)) -}}
{{- fail "flannel.args has no --kube-subnet-mgr: flannel.args are all flags, and without this one the leases are in etcd" -}}
{{- end -}}
{{- if and .podMonitor.enabled (not .healthz.port) -}}
{{- fail "flannel.podMonitor.enabled needs a port where metrics answer: flannel.healthz.port is 0" -}}
{{- end -}}
{{- if not (fromJson .cniConf).plugins -}}
{{- fail "flannel.cniConf is no network configuration list in JSON with plugins: leave it out, or see docs/kubernetes.md" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "yes" for the value of an option that differs from its default. 0 is the same as an empty text: psk: 0. */}}
{{- define "flannel.changed" -}}
{{- $set := index . 0 -}}
{{- $default := index . 1 -}}
{{- if and (or $set $default) (ne (toJson $set) (toJson $default)) -}}
yes
{{- end -}}
{{- end -}}

{{/* One line for each value of upstream's chart that another one replaces here, or that has no effect. */}}
{{- define "flannel.remarks" -}}
{{- if include "flannel.upstreamImage" . }}
flannel.image names upstream's image: {{ include "flannel.image" . }} runs in its place. Set flannel.image to a copy of that one.
{{- end }}
{{- $images := dict "flannel.flannel_cni" .Values.flannel.flannel_cni "flannel.image_cni" .Values.flannel.image_cni "flannel_cni" .Values.flannel_cni -}}
{{- range $value, $set := $images }}
{{- if $set }}
{{ $value }} has no effect: the CNI plugin is in flannel.image.
{{- end }}
{{- end }}
{{- if not .Values.flannel.healthz.port }}
flannel.healthz.port is 0: kubelet does not see whether a daemon works, and an update does not wait for it.
{{- end }}
{{- $own := get (include "flannel.backends" . | fromJson) .Values.flannel.backend -}}
{{- range $value, $default := include "flannel.defaults" . | fromJson }}
{{- if and (not (hasKey $own $value)) (hasKey $.Values.flannel $value) (include "flannel.changed" (list (get $.Values.flannel $value) $default)) }}
flannel.{{ $value }} has no effect: the backend {{ $.Values.flannel.backend }} has no such option.
{{- end }}
{{- end }}
{{- end -}}

{{/* net-conf.json (interop 2): the options of the backend that differ from their defaults. */}}
{{- define "flannel.netconf" -}}
{{- $backend := dict "Type" .Values.flannel.backend -}}
{{- $defaults := include "flannel.defaults" . | fromJson -}}
{{- range $value, $option := get (include "flannel.backends" . | fromJson) .Values.flannel.backend -}}
{{- $set := get $.Values.flannel $value -}}
{{- if and (hasKey $.Values.flannel $value) (include "flannel.changed" (list $set (get $defaults $value))) -}}
{{- $_ := set $backend $option $set -}}
{{- end -}}
{{- end -}}
{{- $conf := dict "Backend" $backend "EnableNFTables" (.Values.flannel.enableNFTables | default false) -}}
{{- if .Values.podCidr -}}
{{- $_ := set $conf "Network" .Values.podCidr -}}
{{- else -}}
{{- $_ := set $conf "EnableIPv4" false -}}
{{- end -}}
{{- if .Values.podCidrv6 -}}
{{- $_ := set $conf "EnableIPv6" true -}}
{{- $_ := set $conf "IPv6Network" .Values.podCidrv6 -}}
{{- end -}}
{{- with .Values.flannel.formerly -}}
{{- $_ := set $conf "Formerly" . -}}
{{- end -}}
{{ toPrettyJson $conf }}
{{- end -}}
