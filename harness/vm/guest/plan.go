package guest

import (
	"encoding/json"
	"fmt"
	"os"
)

// Plan tells the guest what to mount. The host writes it into the initial file
// system, as PlanFile.
type Plan struct {
	Release  string   // of the kernel
	Modules  string   // the host's folder with its modules
	Writable []string // folders of the host that commands may change
}

// The files of the initial file system.
const (
	PlanFile   = "plan.json"
	ModulesDir = "modules" // early modules, named in the order in which to load them
)

// RootTag is the name of the disk with the host's root file system.
const RootTag = "root"

// WritableTag returns the name of the disk with the writable folder number i.
func WritableTag(i int) string { return fmt.Sprintf("writable%d", i) }

// PortName is the name of the serial port that carries the conversation.
const PortName = "commands"

func readPlan() (Plan, error) {
	var p Plan
	text, err := os.ReadFile("/" + PlanFile)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	return p, nil
}
