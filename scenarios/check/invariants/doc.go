// Package invariants watches a simulated world and ends it at the first event
// that breaks what must always hold: no two live nodes own one subnet, no
// other node's record is overwritten, nothing foreign is touched, and so on.
package invariants
