// Package netspace holds network namespaces that have no name and leave no trace.
//
// A namespace lives as long as a thread, a process or a file refers to it. A
// [Space] refers to it by one file and by an operating system thread that does
// nothing else, its home. Both end with the process, however it ends, and with
// them the namespace and every device in it. Processes start from the home: they
// are born in the namespace, and the kernel kills them when that thread is gone.
//
// The package knows nothing about flannel.
package netspace
