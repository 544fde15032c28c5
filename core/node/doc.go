// Package node is the life of one node as a state machine: Idle → Configured →
// Leased → Programmed → Ready. The node enters each state when its facts hold
// and leaves it when one of them ends.
//
// Only [Node.Step] changes a node, and only [Node.Ready] asks for effects; its other methods read. The node has no
// goroutines, no clock, no files and no kernel. Its driver performs the effects
// that Ready returns and passes their results to Step. Package agent does so
// with real drivers, drivers/sim in virtual time.
//
// The rules of the loop:
//   - after every Step, call Ready and start what it returns;
//   - at most one Look or Plan in each lane, one lease Request and one set of
//     Writes are under way at any time; exactly one Step carries the result of
//     each;
//   - several Probes may be under way; the answers come in any order;
//   - call Step, with an empty Input if need be, no later than Effects.Wake.
package node
