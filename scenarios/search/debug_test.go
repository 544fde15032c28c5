package search

import (
	"os"
	"strconv"
	"testing"
)

func TestOne(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("ONE"), 10, 64)
	if err != nil {
		t.Skip("ONE")
	}
	p := Draw(seed, Options{})
	r := Run(p)
	for _, s := range p.all() {
		t.Logf("%8s %s | %s", s.After, s.Line, s.Input)
	}
	t.Log(r.Failed)
	t.Log(r.Logs)
}
