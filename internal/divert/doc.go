// Package divert does to a vxlan device what another program may do: it leads forwarding entries to a
// next-hop object. The harness and the tests of the Linux driver share it.
package divert
