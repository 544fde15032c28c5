// Package monitoring checks the alert rules of deploy/monitoring with Prometheus' own packages: what
// "promtool check rules" and "promtool test rules" do, without that program. It is a module of its
// own, since nothing else needs Prometheus' modules.
package monitoring
