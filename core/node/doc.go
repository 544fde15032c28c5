// Package node is the life of one node as a state machine: Idle → Configured →
// Leased → Programmed → Ready, each state entered by facts and left when a
// fact goes away.
//
// [Node.Step] is the only way in, [Node.Ready] the only way out. The node does
// nothing itself: it has no goroutines, no clock, no files and no kernel. Who
// drives it performs the effects that Ready returns and brings back their
// results with Step. Package agent does so against real drivers, drivers/sim in
// virtual time.
//
// The rules of the loop:
//   - after every Step, call Ready and start what it returns;
//   - at most one Look or Plan in each lane, one lease Request and one set of
//     Writes are under way at any time; each ends with exactly one Step that
//     carries its result;
//   - call Step, with an empty Input if need be, no later than Effects.Wake.
package node
