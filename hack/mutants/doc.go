// Command mutants measures how many small changes of the code the checks catch.
//
//	mutants [-n 40] [-seed 1] [-seeds 200] [-j 2] FOLDER...
//
// A mutant is one change of a package's source: a comparison with another
// operator, an assignment left out, an error that becomes nil, a duration
// doubled. For each package the program prints two scores: the share of the
// mutants that unit tests catch, and the share that scenarios and random search
// in the simulator catch alone. It lists the survivors of each, except those
// that docs/mutation.md accepts.
//
// All mutants of a package are compiled into one binary, and an environment
// variable chooses the one that is in force. So a package is compiled once for
// each kind of check, and not once for each mutant. The changed sources are
// overlays of the build: the tree on disk stays as it is. The same binaries record
// which mutants a check reaches; the others need no run.
//
// The program runs in a network namespace of its own. Every run of a check has a
// process namespace of its own and limits of memory, CPU time and wall time, and
// leaves no process behind.
package main
