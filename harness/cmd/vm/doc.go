// Command vm runs programs on a stock Debian kernel, in a virtual machine.
//
//	vm run [-writable DIR]... [-limit 30m] -- COMMAND...   boots a machine and runs COMMAND here
//	vm exec PROGRAM ARGUMENTS...                           in that machine, from within COMMAND
//	vm kernel                                              downloads the kernel, unless it is there, and names it
//
// COMMAND runs on the host, such as "go test -exec 'vm exec' ./drivers/linux": go
// builds the tests, and each of them runs in the machine. One machine serves them
// all. The program's folder, arguments, variables and exit status are as on the host.
//
// It is also the first process of the machine.
package main
