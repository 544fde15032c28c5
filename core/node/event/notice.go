package event

// Notice returns the reason under which the event is also reported to the operator of
// the cluster, in the form of a Kubernetes event. It is empty if the log is enough.
func (e Event) Notice() string {
	switch e.Kind {
	case "lease-lost":
		return "LeaseLost"
	case "lease-expired":
		return "LeaseExpired"
	case "lease-reassigned":
		return "SubnetReassigned"
	case "lease-overlap", "subnet-overlap":
		return "SubnetOverlap"
	case "lease-disputed":
		return "LeaseDisputed"
	case "uplink-moved":
		return "UplinkMoved"
	case "config-refused":
		return "NetworkConfigRefused"
	case "peers-silent", "no-peer-answers":
		return "PeersUnreachable"
	case "peers-answer", "some-peer-answers":
		return "PeersReachable"
	}
	return ""
}
