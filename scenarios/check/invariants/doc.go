// Package invariants watches a simulated world and ends it at the first event
// that breaks an invariant: no two live nodes own one subnet, no node overwrites
// another node's record, no daemon touches foreign objects, and so on.
package invariants
