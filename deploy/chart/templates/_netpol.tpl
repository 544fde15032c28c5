{{/* The sidecar kube-network-policies. It needs what its own manifest asks for: the queue of
     packets, and the runtime's NRI socket and network namespaces, which tell it about pods. */}}
{{- define "flannel.netpol" -}}
- name: kube-network-policies
  image: {{ .Values.netpol.image.repository }}:{{ .Values.netpol.image.tag }}
  imagePullPolicy: {{ .Values.netpol.image.pullPolicy }}
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
