// Package metrics serves the status of a node to Prometheus.
//
// A scrape reads the status once and counts nothing itself, so the daemon does no work
// for metrics that no program reads. There is no series for a single peer, unless the
// operator asks for them.
package metrics
