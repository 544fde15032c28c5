// Package all is the registry of backends: the only place that lists them. A
// backend describes itself in a [backend.Spec]; errors, help, manual, chart and
// search derive from these, so no other package names a backend.
package all
