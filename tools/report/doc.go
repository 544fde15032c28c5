// Package report makes a page of a live cluster from the answers of its daemons: the
// topology, the events that each daemon remembers, which nodes reach which, the paths of
// packets, and the difference between each host and its desired state.
//
// The page is that of package page, which also shows runs of the simulator. It says what
// could not be learnt.
package report
