// Flanneld is flannel's node daemon: flags and environment in, exit status
// out. What it does in between is core/agent's; here only the parts are chosen
// and plugged together.
package main
