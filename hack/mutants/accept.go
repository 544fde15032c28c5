package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// acceptedList is the document with the survivors that need no check.
const acceptedList = "docs/mutation.md"

// acceptance is a row of that document.
type acceptance struct {
	file, within, was, is string
	columns               [columns]bool
}

// readAccepted reads the rows of the document's tables that have five columns:
// the file, the function, the change, the column, the reason.
func readAccepted(root string) ([]acceptance, error) {
	text, err := os.ReadFile(filepath.Join(root, acceptedList))
	if err != nil {
		return nil, err
	}
	var rows []acceptance
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || !strings.Contains(cells[3], "→") {
			continue
		}
		row, err := parseAcceptance(cells[1:6])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", acceptedList, i+1, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func parseAcceptance(cells []string) (acceptance, error) {
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(cell)
	}
	was, is, ok := strings.Cut(cells[2], " → ")
	if !ok {
		return acceptance{}, fmt.Errorf("%q: want `before` → `after`", cells[2])
	}
	a := acceptance{file: cells[0], within: cells[1], was: strings.Trim(was, "`"), is: strings.Trim(is, "`")}
	switch cells[3] {
	case "both":
		a.columns = [columns]bool{true, true}
	case columnNames[byUnit]:
		a.columns[byUnit] = true
	case columnNames[bySimulation]:
		a.columns[bySimulation] = true
	default:
		return acceptance{}, fmt.Errorf("column %q: want unit, simulation or both", cells[3])
	}
	if cells[4] == "" {
		return acceptance{}, fmt.Errorf("%s: no reason", cells[2])
	}
	return a, nil
}

// isOf reports whether the row describes this mutant.
func (a acceptance) isOf(m mutant) bool {
	return a.file == m.file && a.within == m.within && a.was == m.was && a.is == m.is
}

// accepts reports whether a row accepts that the mutant survives in the column.
func accepts(rows []acceptance, m mutant, c column) bool {
	for _, a := range rows {
		if a.columns[c] && a.isOf(m) {
			return true
		}
	}
	return false
}
