// Package schema makes JSON schemas of the results of flannelctl from their Go types, with the
// comments of their fields. Only tests use it: flannelctl embeds the schemas that they write.
package schema
