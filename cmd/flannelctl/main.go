// Flannelctl is the operator's tool. Package tools/flannelctl holds its commands.
package main

import (
	"os"

	"github.com/flanneld/flannel/tools/flannelctl"
)

func main() { os.Exit(flannelctl.Main()) }
