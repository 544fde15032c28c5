package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/cover"
)

func TestTell(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("core/node", 0o755); err != nil {
		t.Fatal(err)
	}
	source := "package node\n\nfunc f() {\n\tif odd {\n\t\tpanic(1)\n\t}\n}\n"
	if err := os.WriteFile("core/node/f.go", []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	profiles := []*cover.Profile{
		{FileName: module + "core/node/f.go", Blocks: []cover.ProfileBlock{
			{StartLine: 3, EndLine: 4, NumStmt: 3, Count: 1},
			{StartLine: 4, EndLine: 6, NumStmt: 1},
		}},
		{FileName: module + "core/node/below/g.go", Blocks: []cover.ProfileBlock{{StartLine: 1, EndLine: 1, NumStmt: 1}}},
	}
	var out strings.Builder
	for _, folder := range []string{"core/node", "core/gone"} {
		if err := tell(&out, profiles, folder); err != nil {
			t.Fatal(err)
		}
	}
	const want = "   75.0 % of core/node\n    core/node/f.go:4: if odd {\n          core/gone is not part of the program\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
