// Package cleanup removes from a host what flannel made there: this flannel, or
// upstream's. It finds kernel objects and rules by the marks and with the drivers of
// the daemon, and files by their paths. It removes nothing that carries no mark, and
// names the objects next to flannel's that it leaves alone.
package cleanup
