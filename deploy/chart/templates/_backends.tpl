{{/* The registry of backends, made by hack/chart (make manifest). */}}
{{- define "flannel.repository" -}}ghcr.io/flanneld/flannel{{- end -}}
{{- define "flannel.backends" -}}
{
  "alloc": {},
  "host-gw": {},
  "ipip": {
    "directRouting": "DirectRouting"
  },
  "udp": {
    "backendPort": "Port"
  },
  "vxlan": {
    "GBP": "GBP",
    "backendPort": "Port",
    "directRouting": "DirectRouting",
    "macPrefix": "MacPrefix",
    "mtu": "MTU",
    "txChecksum": "TxChecksum",
    "vni": "VNI"
  },
  "wireguard": {
    "backendPort": "ListenPort",
    "backendPortv6": "ListenPortV6",
    "keepaliveInterval": "PersistentKeepaliveInterval",
    "mtu": "MTU",
    "psk": "PSK",
    "tunnelMode": "Mode"
  }
}
{{- end -}}
{{- define "flannel.defaults" -}}
{
  "GBP": false,
  "backendPort": 0,
  "backendPortv6": 51821,
  "directRouting": false,
  "keepaliveInterval": 0,
  "macPrefix": "",
  "mtu": 0,
  "psk": "",
  "tunnelMode": "separate",
  "txChecksum": "auto",
  "vni": 1
}
{{- end -}}
