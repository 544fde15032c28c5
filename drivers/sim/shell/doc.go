// Package shell interprets the few commands with which scenarios change the routes of
// a simulated host, as an operator's text would. It knows words, quotes, variables,
// ";", "&&" and "||", and the programs echo, read, true, false, exit, sleep and
// "ip route add|replace|del PREFIX via ADDRESS". Any other program is not found.
//
// It is not a real shell. Scenarios that run in the simulator use only these commands.
package shell
