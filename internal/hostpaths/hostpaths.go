package hostpaths

import "path/filepath"

// The default paths, which flags and the environment override.
const (
	SubnetFile  = "/run/flannel/subnet.env"
	stateDir    = "/var/lib/flannel" // unlike /run, it outlives a reboot
	StateFile   = stateDir + "<subnet-file>.state"
	EmbeddedDir = stateDir + "/etcd"      // of --embed-etcd
	KeyFile     = "/run/flannel/wgkey"    // interop 1.3: WIREGUARD_KEY_FILE
	CNIData     = "/var/lib/cni/flannel"  // interop 4.2: dataDir
	CNIGateways = ".gateways"             // below CNIData and the network: the addresses given to bridges
	CNIBin      = "/opt/cni/bin"          // where --install-cni puts the plugin
	CNIConf     = "/etc/cni/net.d"        // and its configuration
	SubnetDir   = "/run/flannel/networks" // interop 1.7: subnet-dir, of named networks
	networkDir  = "networks"              // beside the subnet file, as SubnetDir is beside SubnetFile
	recordEnd   = ".commands"             // after the path of the state file
	secretFiles = "*.secret"              // beside the state file
	callsEnd    = ".cni"                  // after the path of the subnet file
)

// StatePaths returns the path of the state file, and the path where an earlier
// release kept it: beside the subnet file. Each is empty if there is none. The
// path of the subnet file is part of both, so two daemons on one host do not
// collide.
func StatePaths(subnetFile, stateFile string) (path, former string) {
	if stateFile != StateFile {
		return stateFile, ""
	}
	former = subnetFile + ".state"
	absolute, err := filepath.Abs(former)
	if err != nil { // the working directory no longer exists
		return former, ""
	}
	return filepath.Join(stateDir, absolute), former
}

// EmbeddedSocket returns the path of the socket at which the etcd of --embed-etcd answers, in its data directory.
func EmbeddedSocket(dir string) string { return filepath.Join(dir, "client.sock") }

// Record returns the path of the record of commands, beside the state file; ""
// if there is no state file.
func Record(statePath string) string {
	if statePath == "" {
		return ""
	}
	return statePath + recordEnd
}

// RecordLock returns the path of the file that the process which runs commands holds.
func RecordLock(statePath string) string { return Record(statePath) + ".lock" }

// Secrets returns a pattern that the node's secrets match, beside the state file.
func Secrets(statePath string) string { return filepath.Join(filepath.Dir(statePath), secretFiles) }

// CNICalls returns the path of the file in which the CNI plugin counts its calls, beside the subnet file.
func CNICalls(subnetFile string) string { return subnetFile + callsEnd }

// Networks returns a pattern that the subnet files of further networks match, which
// upstream kept up to v0.7.1 (interop 1.7: multi-network mode).
func Networks(subnetFile string) string {
	return filepath.Join(filepath.Dir(subnetFile), networkDir, "*.env")
}
