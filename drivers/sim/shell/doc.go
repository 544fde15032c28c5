// Package shell interprets the few commands of scenarios in which an operator's
// text changes routes of a simulated host. It knows words, quotes, variables,
// ";", "&&" and "||", and the programs echo, read, true, false, exit, sleep and
// "ip route add|replace|del PREFIX via ADDRESS". Any other program is not found.
//
// It is no shell: a scenario for the simulator keeps to what it knows, and real
// shells run the others.
package shell
