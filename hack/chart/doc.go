// Command chart writes those parts of the Helm chart that say which values there are:
// values.yaml, values.schema.json, the template of backends, and the table in the
// manual. All derive from one table of values and from the registry of backends.
//
//	chart ROOT
//
// It knows no template of the chart beside its own, and renders nothing.
package main
