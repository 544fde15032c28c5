// Package planted holds daemons with a defect each, and the test that the
// random search finds every one of them. It has no code of its own: a defect
// is something put around the parts of a healthy daemon, and lives in tests.
//
// The defects are those of upstream that this project set out not to repeat
// (interop 10), and some that would make an invariant pointless if it did not
// notice them.
package planted
