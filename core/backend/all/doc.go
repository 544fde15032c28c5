// Package all is the registry of backends, the only package that names them. A
// backend describes itself in a [backend.Spec]; errors, help, manual, chart and
// search derive from the specs.
package all
