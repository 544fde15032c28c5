package metrics

import "github.com/prometheus/client_golang/prometheus"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("flannel_"+name, help, labels, nil)
}

// The metrics of the node.
var (
	buildInfo   = desc("build_info", "Version of flanneld; always 1.", "version", "goversion")
	ready       = desc("ready", "Whether the node is ready.")
	inPhase     = desc("phase", "1 for the phase that the node is in, else 0.", "phase")
	fenced      = desc("fenced", "Whether the node's subnet may belong to another node.")
	unhealthy   = desc("unhealthy", "Whether the daemon needs a restart, as /healthz says.")
	statusAge   = desc("status_age_seconds", "Age of these values; 0 unless the node is busy.")
	blocked     = desc("forwarding_blocked", "Whether packets between pods are not forwarded.")
	leaseExpiry = desc("lease_expiry_timestamp_seconds", "End of the node's lease; absent without an end.")
	mtu         = desc("mtu_bytes", "MTU of the overlay.")
	objects     = desc("desired_objects", "Objects that the node desires on the host.")
	withheld    = desc("withheld_deletes", "Deletes that wait for the datastore.")
	changing    = desc("backend_change", "Whether a change of the backend is under way.")
)

// The metrics of the datastore.
var (
	synced      = desc("store_synced", "Whether the leases in force follow the datastore.")
	stale       = desc("stale", "Whether the leases in force were saved by the last run.")
	lastSync    = desc("store_last_sync_timestamp_seconds", "Last time when the node followed the datastore.")
	revision    = desc("store_revision", "Revision of the snapshot in force.")
	quarantined = desc("quarantined_records", "Records in the datastore that cannot be decoded.")
	subnets     = desc("subnets", "Subnets by state; absent if the datastore assigns them.", "family", "state")
)

// The metrics of the peers.
var (
	peers       = desc("peers", "Peers by state.", "state")
	lostPeers   = desc("lost_peers", "Peers whose records the datastore lost by accident.")
	formerPeers = desc("former_way_peers", "Peers reached by a previous backend, while the backend changes.")
	peerServed  = desc("peer_served", "Whether the host holds all objects of a peer.", "subnet", "backend")
)

// cniCalls are the metrics of the CNI plugin.
var cniCalls = desc("cni_calls_total", "Calls of the CNI plugin flannel, by command and outcome.", "command", "outcome")

// The metrics of the probes.
var (
	probesSent  = desc("probes_sent_total", "Packets sent to see whether peers answer.", "kind")
	probesLost  = desc("probes_lost_total", "Those of them without an answer.", "kind")
	probeRTT    = desc("probe_rtt_seconds", "Round trip time of small echoes to peers.")
	probedPeers = desc("probed_peers", "Peers, in each family, by what their answers mean.", "finding")
)

// The metrics of the lanes.
var (
	asDesired     = desc("lane_as_desired", "Whether the last look at a part of the host found no difference.", "lane")
	looksTotal    = desc("looks_total", "Looks at a part of the host.", "lane", "cause")
	lookFailures  = desc("look_failures_total", "Looks that could read nothing.", "lane")
	lookDuration  = desc("look_duration_seconds", "Time that looks took.", "lane")
	planDuration  = desc("apply_duration_seconds", "Time that sets of changes took.", "lane")
	changes       = desc("changes_total", "Objects changed on the host.", "lane")
	applyFailures = desc("apply_failures_total", "Changes that the host refused.", "lane")
	repairs       = desc("repairs_total", "Changes that undid those of another program.", "lane", "kind", "verb")
)

// The metrics of the packet paths in the daemon's process.
var (
	tier    = desc("packet_path_info", "Packet paths of this process, and their tiers; always 1.", "link", "tier")
	carried = desc("packet_path_packets_total", "Packets that a packet path carried.", "link", "tier")
	drops   = desc("packet_path_dropped_packets_total", "Packets that a packet path dropped.", "link", "tier", "reason")
)
