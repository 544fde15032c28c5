// Package subnetfile formats and parses the file through which CNI plugins and
// start-up scripts learn the node's subnet (interop section 4.1).
package subnetfile
