// Package report makes a page of a live cluster from what its daemons answer: the
// topology, the events that each daemon remembers, who reaches whom, the way of packets,
// and the difference between each host and its desired state.
//
// The page is that of package page, which also shows runs of the simulator. It says what
// could not be learnt.
package report
