// Package planted holds daemons with one defect each, and the test that the
// random search finds every one of them. It has no code of its own: a defect
// wraps the parts of a healthy daemon, and lives in tests.
//
// Most are upstream's defects, which this project set out not to repeat (interop
// 10: the list of known defects). Each of the others must break an invariant.
package planted
