{{- define "flannel.labels" -}}
app: flannel
app.kubernetes.io/name: flannel
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end -}}

{{- define "flannel.image" -}}
{{ .Values.flannel.image.repository }}:{{ .Values.flannel.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* What values of upstream's chart ask for and this one does not have. The schema refuses the rest. */}}
{{- define "flannel.check" -}}
{{- with .Values.flannel -}}
{{- if not (has .backend (list "vxlan" "host-gw" "ipip" "alloc" "wireguard")) -}}
{{- fail (printf "flannel.backend is %q: this flannel has vxlan, host-gw, ipip, alloc and wireguard in a container; see docs/kubernetes.md" .backend) -}}
{{- end -}}
{{- if regexMatch "(flannel-io|coreos|flannelcni)/flannel$|^(docker\\.io/)?flannel/flannel$" .image.repository -}}
{{- fail (printf "flannel.image.repository is %s, which is upstream's image: leave flannel.image out, or name a copy of this one's" .image.repository) -}}
{{- end -}}
{{- if .image_cni -}}
{{- fail "flannel.image_cni: leave it out, the CNI plugin is in flannel.image" -}}
{{- end -}}
{{- if not (or (has "--kube-subnet-mgr" .args) (has "--kube-subnet-mgr=true" .args)) -}}
{{- fail "flannel.args has no --kube-subnet-mgr: flannel.args are all flags, and without this one the leases are in etcd" -}}
{{- end -}}
{{- end -}}
{{- if (.Values.netpol | default dict).enabled -}}
{{- fail "netpol.enabled: network policies are not part of this chart; install kube-network-policies beside it" -}}
{{- end -}}
{{- end -}}

{{/* net-conf.json (interop 2) */}}
{{- define "flannel.netconf" -}}
{{- $backend := dict "Type" .Values.flannel.backend -}}
{{- if eq .Values.flannel.backend "vxlan" -}}
{{- range $name, $value := dict "Port" .Values.flannel.backendPort "MTU" .Values.flannel.mtu "DirectRouting" .Values.flannel.directRouting "GBP" .Values.flannel.GBP "MacPrefix" .Values.flannel.macPrefix -}}
{{- if $value -}}
{{- $_ := set $backend $name $value -}}
{{- end -}}
{{- end -}}
{{- if ne .Values.flannel.txChecksum "auto" -}}
{{- $_ := set $backend "TxChecksum" .Values.flannel.txChecksum -}}
{{- end -}}
{{- if ne (int .Values.flannel.vni) 1 -}}
{{- $_ := set $backend "VNI" (int .Values.flannel.vni) -}}
{{- end -}}
{{- end -}}
{{- $conf := dict "Backend" $backend "EnableNFTables" .Values.flannel.enableNFTables -}}
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
