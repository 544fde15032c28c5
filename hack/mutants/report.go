package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// tally counts the fates of one column.
type tally struct {
	caught, survived, unreached int // without the accepted ones
}

// tallyOf counts what became of the results in a column.
func tallyOf(results []result, c column, rows []acceptance) tally {
	var t tally
	for _, r := range results {
		switch {
		case r.fates[c] == caught:
			t.caught++
		case accepts(rows, r.mutant, c):
			continue
		case r.fates[c] == survived:
			t.survived++
		default:
			t.unreached++
		}
	}
	return t
}

// String returns the share of the mutants caught, of those not accepted.
func (t tally) String() string {
	of := t.caught + t.survived + t.unreached
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%% (%d of %d)", 100*t.caught/of, t.caught, of)
}

// printSurvivors lists the mutants of a package that a column does not catch.
func printSurvivors(w io.Writer, s score, rows []acceptance) {
	for c := range columns {
		if !s.has[c] {
			continue
		}
		for _, r := range s.results {
			if r.fates[c] == caught || accepts(rows, r.mutant, c) {
				continue
			}
			how := "survives"
			if r.fates[c] == unreached {
				how = "not run"
			}
			fmt.Fprintf(w, "%-10s %-8s %s\n", columnNames[c], how, r.mutant)
		}
	}
}

// printTable prints a line for each package.
func printTable(w io.Writer, scores []score, rows []acceptance) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tmutants\ttried\tunit tests\tscenarios and search\taccepted")
	for _, s := range scores {
		fmt.Fprintf(table, "%s\t%d\t%d", s.folder, s.all, len(s.results))
		for c := range columns {
			if s.has[c] {
				fmt.Fprintf(table, "\t%s", tallyOf(s.results, c, rows))
			} else {
				fmt.Fprint(table, "\t-")
			}
		}
		fmt.Fprintf(table, "\t%d\n", s.accepted(rows))
	}
	table.Flush()
}

// accepted counts the mutants that may survive in a column, and do.
func (s score) accepted(rows []acceptance) int {
	count := 0
	for _, r := range s.results {
		for c := range columns {
			if s.has[c] && r.fates[c] != caught && accepts(rows, r.mutant, c) {
				count++
				break
			}
		}
	}
	return count
}
