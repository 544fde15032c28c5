// Command chart writes the parts of the Helm chart that list its values:
// values.yaml, values.schema.json, the template of backends, and the table in the
// manual. All derive from one table of values and from the registry of backends.
//
//	chart ROOT
//
// It knows no other template of the chart, and renders nothing.
package main
