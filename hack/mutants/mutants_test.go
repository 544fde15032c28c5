package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const fixture = "hack/mutants/testdata/fixture"

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func loadFixture(t *testing.T) *mutated {
	t.Helper()
	all, err := load(root(t), []string{fixture})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// changes are the texts of mutants without their places.
func changes(mutants []mutant) []string {
	var texts []string
	for _, m := range mutants {
		texts = append(texts, m.within+": "+m.was+" → "+m.is)
	}
	return texts
}

func TestKindsOfMutants(t *testing.T) {
	want := []string{
		"newBox: most: most → no most",
		"newBox: items: make([]int, 0, 1+most) → no items",
		"newBox: 1+most → 1 - most",
		"box.put: b.items = append(b.items, item) → nothing",
		"box.put: len(b.items) >= b.most → len(b.items) > b.most",
		"box.put: len(b.items) >= b.most → len(b.items) < b.most",
		"box.put: errFull → nil",
		"box.holds: i == item && item != 0 ¦¦ item < 0 → i == item && item != 0 && item < 0",
		"box.holds: i == item && item != 0 → i == item ¦¦ item != 0",
		"box.holds: i == item → i != item",
		"box.holds: item != 0 → item == 0",
		"box.holds: item < 0 → item <= 0",
		"box.holds: item < 0 → item >= 0",
		"box.holds: true → not true",
		"box.holds: false → not false",
		"wait: busy → not busy",
		"wait: limit → twice limit",
		"spin: count != times → count == times",
		"spin: count++ → nothing",
	}
	if diff := cmp.Diff(want, changes(loadFixture(t).mutants)); diff != "" {
		t.Error(diff)
	}
}

func TestMutantsKeepLines(t *testing.T) {
	m := loadFixture(t)
	for name, text := range m.overlay {
		set := token.NewFileSet()
		if _, err := parser.ParseFile(set, name, text, 0); err != nil {
			t.Error(err)
		}
		if filepath.Base(name) == "fixture.go" && !strings.Contains(strings.Split(string(text), "\n")[20], "len(b.items)") {
			t.Errorf("line 21 is no longer where it was:\n%s", text)
		}
	}
}

// TestScore checks that a run of the fixture's own tests gives each mutant the right one
// of the three fates. A mutant that never ends counts as caught.
func TestScore(t *testing.T) {
	j := job{root: root(t), workers: 2, limits: limits{grace: 2 * time.Second}}
	s, err := j.score(t.Context(), loadFixture(t))
	if err != nil {
		t.Fatal(err)
	}
	fates := map[fate][]string{}
	for _, r := range s.results {
		fates[r.fates[byUnit]] = append(fates[r.fates[byUnit]], changes([]mutant{r.mutant})...)
	}
	wantSurvivors := []string{
		"newBox: items: make([]int, 0, 1+most) → no items",
		"box.holds: i == item && item != 0 → i == item ¦¦ item != 0",
		"box.holds: i == item → i != item",
		"box.holds: item < 0 → item >= 0",
	}
	if diff := cmp.Diff(wantSurvivors, fates[survived]); diff != "" {
		t.Error("survivors:\n" + diff)
	}
	wantUnreached := []string{
		"box.holds: item < 0 → item <= 0",
		"box.holds: false → not false",
		"wait: busy → not busy",
		"wait: limit → twice limit",
	}
	if diff := cmp.Diff(wantUnreached, fates[unreached]); diff != "" {
		t.Error("unreached:\n" + diff)
	}
	if want := len(s.results) - len(wantSurvivors) - len(wantUnreached); len(fates[caught]) != want {
		t.Errorf("caught %d, want %d: %q", len(fates[caught]), want, fates[caught])
	}
}

func TestSampleDependsOnTheSeed(t *testing.T) {
	all := loadFixture(t).mutants
	sample := func(seed uint64) []string { return changes(job{sample: 5, seed: seed}.choose(all)) }
	if diff := cmp.Diff(sample(1), sample(1)); diff != "" {
		t.Error("the same seed, another sample:\n" + diff)
	}
	if cmp.Equal(sample(1), sample(2)) {
		t.Error("another seed, the same sample")
	}
	if len(sample(1)) != 5 {
		t.Errorf("%d mutants, want 5", len(sample(1)))
	}
}

func TestTable(t *testing.T) {
	one := mutant{file: "a/b.go", line: 3, within: "f", was: "x", is: "not x"}
	other := mutant{file: "a/b.go", line: 4, within: "f", was: "y", is: "nothing"}
	third := mutant{file: "a/b.go", line: 5, within: "g", was: "y", is: "nothing"}
	s := score{folder: "a", all: 9, has: [columns]bool{true, true}, results: []result{
		{one, [columns]fate{caught, survived}},
		{other, [columns]fate{survived, unreached}},
		{third, [columns]fate{caught, caught}},
	}}
	row, err := parseAcceptance([]string{"a/b.go", "f", "`y` → `nothing`", "unit", "equivalent"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printSurvivors(&out, s, []acceptance{row})
	printTable(&out, []score{s}, []acceptance{row})
	want := `simulation survives a/b.go:3 f: ` + "`x` → `not x`" + `
simulation not run  a/b.go:4 f: ` + "`y` → `nothing`" + `
package  mutants  tried  unit tests     scenarios and search  accepted
a        9        3      100% (2 of 2)  33% (1 of 3)          1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestAcceptedMutantsExist checks that each row of the document describes a mutant of
// the code.
func TestAcceptedMutantsExist(t *testing.T) {
	rows, err := readAccepted(root(t))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := load(root(t), everything)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		found := false
		for _, m := range packages {
			for _, one := range m.mutants {
				found = found || row.isOf(one)
			}
		}
		if !found {
			t.Errorf("%s accepts a mutant that does not exist: %s %s `%s` → `%s`",
				acceptedList, row.file, row.within, row.was, row.is)
		}
	}
}
