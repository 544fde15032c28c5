package main

import (
	"fmt"
	"strings"
)

// object is a JSON object, such as a schema.
type object = map[string]any

// value is one of the chart's values.
type value struct {
	name      string // with dots: flannel.image.tag
	byDefault any
	schema    object
	help      string // for people: in values.yaml, in the schema and in the manual
}

// required says whether the value may not be null. Null is the default where that is empty,
// and the backend's default for one of its options. It removes an object of free members, as
// it does in every chart.
func (v value) required() bool {
	switch v.byDefault.(type) {
	case object:
		return v.schema["type"] == "object"
	case bool:
		return false
	}
	_, ofBackends := options()
	if ofBackends[strings.TrimPrefix(v.name, "flannel.")] != nil {
		return false
	}
	text := fmt.Sprint(v.byDefault)
	return text != "" && text != "[]"
}

// The schemas that several values share.
var (
	text        = object{"type": "string"}
	imageName   = object{"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"}
	imageTag    = object{"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._:@-]*$"}
	optionalTag = object{"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9._:@-]*)?$"}
	directory   = object{"type": "string", "pattern": "^/"}
	truth       = object{"type": "boolean"}
	anyObject   = object{"type": []any{"object", "null"}}
	pullPolicy  = object{"enum": []any{"Always", "IfNotPresent", "Never"}}
	port        = object{"type": "integer", "minimum": 0, "maximum": 65535}
	flags       = object{"type": "array", "items": object{"type": "string", "pattern": "^--?[a-z]"}}
	objects     = object{"type": "array", "items": object{"type": "object"}}
	formerly    = object{"type": "array", "maxItems": 3, "items": object{"type": "object", "required": []any{"Type"}}}
	named       = object{"type": []any{"array", "null"}, "items": object{"type": "object", "required": []any{"name"}}}
)

const (
	ipv4CIDR = `^$|^((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])(\.|/)){4}([1-9]|[12][0-9]|30)$`
	ipv6CIDR = `^$|^[0-9A-Fa-f:]*:[0-9A-Fa-f:]*/([1-9][0-9]?|1[01][0-9]|12[0-6])$`
)

// cniConf is the network configuration list of the manifest (interop 4.3).
const cniConf = `{
  "name": "cbr0",
  "cniVersion": "0.3.1",
  "plugins": [
    {
      "type": "flannel",
      "delegate": {
        "hairpinMode": true,
        "isDefaultGateway": true
      }
    },
    {
      "type": "portmap",
      "capabilities": {
        "portMappings": true
      }
    }
  ]
}
`

// ownPlugin is the help of the values that name an image of upstream's CNI plugin: flannel.flannel_cni is that of
// v0.28, flannel.image_cni that of v0.27.
const ownPlugin = "Of upstream, without effect: the CNI plugin is in flannel.image."

// values returns all values of the chart in the order of values.yaml. Their names are those of
// upstream's chart, where it has such a value.
func values() []value {
	all := clusterValues()
	all = append(all, networkValues()...)
	all = append(all, optionValues()...)
	all = append(all, podValues()...)
	return append(all, netpolValues()...)
}

func clusterValues() []value {
	return []value{
		{"podCidr", "10.244.0.0/16", object{"type": "string", "pattern": ipv4CIDR},
			"The network of the pods: the cluster CIDR of kube-controller-manager (kubeadm init --pod-network-cidr). " +
				"Empty: no IPv4."},
		{"podCidrv6", "", object{"type": "string", "pattern": ipv6CIDR},
			"Its IPv6 part. Both together make a dual-stack cluster."},
		{"global.imagePullSecrets", []any{}, named, "Secrets with which kubelet pulls the images."},
		{"namespace.create", false, truth, "The chart makes the namespace, instead of Helm."},
		{"flannel_cni", object{}, anyObject, ownPlugin},
	}
}

func networkValues() []value {
	return []value{
		{"flannel.image.repository", repository, imageName, "Upstream's image here stands for the default image."},
		{"flannel.image.tag", "", optionalTag, "Empty: the chart's appVersion."},
		{"flannel.image.pullPolicy", "IfNotPresent", pullPolicy, "When kubelet pulls the image."},
		{"flannel.flannel_cni", object{}, anyObject, ownPlugin},
		{"flannel.image_cni", object{}, anyObject, ownPlugin},
		{"flannel.args", []any{"--ip-masq", "--kube-subnet-mgr", "--iface-from-node"}, flags,
			"All flags of flanneld except that of the health port."},
		{"flannel.extraArgs", []any{}, flags, "Flags beside flannel.args, such as --iface=eth1."},
		{"flannel.extraEnv", []any{}, named, "Environment variables of flanneld, beside NODE_NAME."},
		{"flannel.enableNFTables", false, truth, "Make the firewall rules with nftables instead of iptables. " +
			"Only those of iptables can accept what a policy of DROP in its chain FORWARD drops."},
		{"flannel.cniBinDir", "/opt/cni/bin", directory, "Where the container runtime looks for CNI plugins."},
		{"flannel.cniConfDir", "/etc/cni/net.d", directory, "Where it looks for their configuration."},
		{"flannel.skipCNIConfigInstallation", false, truth,
			"Another program keeps the CNI configuration; the plugin is installed all the same."},
		{"flannel.cniConf", cniConf, text, "The network configuration list that each node gets."},
		{"flannel.backend", "vxlan", text, "What carries packets between nodes: " + backendList() + "."},
		{"flannel.formerly", []any{}, formerly, "The previous backends that nodes keep while the backend changes, as in " +
			"net-conf.json: [{Type: vxlan}]. Empty: each node keeps its own for an hour."},
	}
}

func podValues() []value {
	const ofProbe = " Other members such as failureThreshold are allowed, too."
	return []value{
		{"flannel.healthz.port", 8081, port, "Where /healthz, /readyz and /metrics answer, on every node. 0: nowhere, " +
			"and kubelet probes nothing, so that an update does not wait until a replaced daemon works."},
		{"flannel.healthz.livenessProbe", object{"initialDelaySeconds": 10, "periodSeconds": 30, "timeoutSeconds": 5}, probe,
			"Times of the probe of /healthz. With Kubernetes' own timeout, one second, the daemon of a busy node is killed." +
				ofProbe},
		{"flannel.healthz.readinessProbe", object{"initialDelaySeconds": 5, "periodSeconds": 10, "timeoutSeconds": 5}, probe,
			"Times of the probe of /readyz." + ofProbe},
		{"flannel.podMonitor.enabled", false, truth, "A PodMonitor for the Prometheus operator."},
		{"flannel.podMonitor.interval", "30s", object{"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
			"Time between two scrapes."},
		{"flannel.podMonitor.labels", object{}, anyObject, "Labels by which the operator selects the PodMonitor."},
		{"flannel.podAnnotations", object{}, anyObject, "Annotations of the pods."},
		{"flannel.maxUnavailable", "10%", object{"type": []any{"integer", "string"}, "minimum": 1,
			"pattern": "^[1-9][0-9]?%$|^100%$"}, "How many nodes an update changes at a time."},
		{"flannel.priorityClassName", "system-node-critical", text, "Priority of the pods."},
		{"flannel.resources", object{"requests": object{"cpu": "50m", "memory": "50Mi"}}, anyObject,
			"What the daemon's container requests, and its limits."},
		{"flannel.privileged", false, truth, "Run the daemon's container privileged: only for a container runtime that " +
			"denies /dev/net/tun, which udp needs, and wireguard where the kernel has none."},
		{"flannel.seLinuxOptions", object{}, anyObject, "SELinux context of the containers."},
		{"flannel.tolerations", []any{object{"operator": "Exists", "effect": "NoSchedule"},
			object{"operator": "Exists", "effect": "NoExecute"}}, objects, "Taints that do not keep flannel off a node."},
		{"flannel.nodeSelector", object{"kubernetes.io/os": "linux"}, anyObject, "Labels of the nodes that get flannel."},
		{"flannel.affinity", object{}, anyObject, "Affinity of the pods."},
	}
}

// probe is the schema of a probe's times. The chart sets its path and port.
var probe = object{"type": "object", "additionalProperties": false, "properties": object{
	"initialDelaySeconds":           object{"type": "integer", "minimum": 0},
	"periodSeconds":                 object{"type": "integer", "minimum": 1},
	"timeoutSeconds":                object{"type": "integer", "minimum": 1},
	"successThreshold":              object{"type": "integer", "minimum": 1},
	"failureThreshold":              object{"type": "integer", "minimum": 1},
	"terminationGracePeriodSeconds": object{"type": "integer", "minimum": 1},
}}

func netpolValues() []value {
	return []value{
		{"netpol.enabled", false, truth, "A sidecar that enforces NetworkPolicy objects: kube-network-policies of " +
			"Kubernetes SIGs. It is privileged."},
		{"netpol.args", []any{"--hostname-override=$(MY_NODE_NAME)", "--v=2"}, flags, "Flags of the sidecar."},
		{"netpol.image.repository", "registry.k8s.io/networking/kube-network-policies", imageName, "Its image."},
		{"netpol.image.tag", "v1.0.0", imageTag, "The image's tag; a digest may follow it: v1.0.0@sha256:…"},
		{"netpol.image.pullPolicy", "IfNotPresent", pullPolicy, "When kubelet pulls it."},
		{"netpol.resources", object{"requests": object{"cpu": "100m", "memory": "50Mi"}}, anyObject,
			"What the sidecar requests, and its limits."},
	}
}
