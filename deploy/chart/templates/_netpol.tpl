{{/* The sidecar kube-network-policies, with the mounts and rights that its own manifests have, from v0.8.0 to v1.0.0.
     Through the NRI socket the container runtime tells it about a pod before the pod runs, so that no packet passes
     ahead of the policies; without the socket it waits for the API server. containerd before 2.1 leaves out the pod's
     addresses: the sidecar reads them in the network namespace, which takes the mount of /var/run/netns and the right
     to enter it. Privileged includes NET_ADMIN, which the queue of packets and its rules take. Upstream's chart mounts
     /lib/modules, as the sidecar's manifest did in v0.6 but no longer does in v1.0.0: the kernel loads modules from the
     host's own files. */}}
{{- define "flannel.netpol" -}}
- name: kube-network-policies
  image: {{ printf "%s:%v" .Values.netpol.image.repository .Values.netpol.image.tag | toYaml }}
  imagePullPolicy: {{ .Values.netpol.image.pullPolicy | toYaml }}
  command: [/bin/netpol]
  args:
    {{- range .Values.netpol.args }}
    - {{ . | quote }}
    {{- end }}
  env:
    - name: MY_NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
  {{- with .Values.netpol.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    privileged: true
  volumeMounts:
    - name: nri-plugin
      mountPath: /var/run/nri
    - name: netns
      mountPath: /var/run/netns
      mountPropagation: HostToContainer
{{- end -}}
