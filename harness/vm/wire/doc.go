// Package wire is the protocol for commands between a machine's guest, the program that
// holds the machine, and programs that ask it to run a command.
//
// Both connections carry a stream of [Message] values. The package starts
// nothing itself.
package wire
