// Package check finds on a host what would keep flannel from working, before and
// after it is installed. [Gather] reads facts, and [Facts.Findings] judges them; the
// judgement is a pure function, with a remedy for each trouble.
package check
