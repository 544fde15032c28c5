// Package check finds faults on a host that keep flannel from working, before or after
// it is installed. [Gather] reads facts, and [Facts.Findings] judges them; the
// judgement is a pure function, with a remedy for each fault.
package check
