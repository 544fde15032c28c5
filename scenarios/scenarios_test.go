package scenarios

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/pace"
	"github.com/flanneld/flannel/internal/suite/outcome"
	"github.com/flanneld/flannel/scenarios/labworld"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// atOnce is how many scenarios are played at a time, unless -parallel says another number:
// more than there are cores, since a lab waits for its kernel most of the time. A lab on the one
// processor of an emulated machine waits for a third of the time.
const (
	atOnce     = 6
	atOnceInVM = 2
)

func TestMain(m *testing.M) {
	number := atOnce
	if os.Getenv("WORLD") == "vm" {
		number = atOnceInVM
		slowness := pace.Slowness() * atOnceInVM // each has a part of the one processor
		_ = os.Setenv(pace.Env, strconv.FormatFloat(slowness, 'f', 1, 64))
	}
	err := flag.Set("test.parallel", strconv.Itoa(number))
	if err != nil {
		panic(err) // there is such a flag
	}
	harness.MainWithout(m)
}

// TestScenarios replays the files of cases/ and regressions/, on the simulator and in
// namespaces.
//
//	SCENARIO=vxlan-*   only the files that match, by name without .txt
//	WORLD=sim          only that world; vm is namespaces of a machine, in which this program runs
//	SHARE=1/2          only the first of two shares of those files; two machines run one each
//	SEED=7             of all chance in the simulator; by default the file's "# seed=N", else 1
//	-short             on the kernel only files with the line "# also=quick", unless SCENARIO or WORLD names some
//	NEXTHOPS=always    routes use next-hop objects, or never do, unless the file says nexthops=
//	REPORT=out.html    write a page that explains each run; several get names of their own
//
// With -rewrite the output of the one world that WORLD names is recorded.
func TestScenarios(t *testing.T) {
	c := choose(t)
	results := newTable(os.Stdout)
	for _, file := range c.files {
		text := readFile(t, file)
		results.elsewhere[scenarioName(file)] = forVM(text) || c.fewer && !quick(text)
	}
	t.Cleanup(func() { results.total(t, c.worlds) })
	for _, world := range c.worlds {
		t.Run(world, func(t *testing.T) {
			if world != "sim" {
				_, _ = c.daemon() // the build is no part of a file's time; each file reports its error
			}
			for _, file := range longestFirst(t, c.files) {
				t.Run(scenarioName(file), func(t *testing.T) {
					if world != "vm" || !countsLost(readFile(t, file)) {
						t.Parallel()
					}
					if c.fewer && world != "sim" && !quick(readFile(t, file)) {
						t.Skip(outcome.ForTestAll)
					}
					replay(t, c.maker(t, world, file), file, results)
				})
			}
		})
	}
}

// longestFirst sorts files by the time that they let pass, so that no long one is left for the end. Other files keep
// their order.
func longestFirst(t *testing.T, files []string) []string {
	t.Helper()
	passes := map[string]time.Duration{}
	for _, file := range files {
		for _, line := range passed.FindAllStringSubmatch(readFile(t, file), -1) {
			d, err := time.ParseDuration(line[1])
			if err == nil { // else the scenario itself reports it
				passes[file] += d
			}
		}
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(passes[b], passes[a]) })
	return files
}

var passed = regexp.MustCompile(`(?m)^pass (\S+)`)

// countsLost reports whether a scenario counts the lost packets of a stream. On the one processor of
// an emulated machine another scenario would add to them, so this one is played alone.
func countsLost(text string) bool { return strings.Contains(text, "\nstream start ") }

// choice names the scenarios to replay, and their worlds.
type choice struct {
	files, worlds []string
	fewer         bool   // on the kernel, only those of make test
	seed          uint64 // 0: as the file says
	nextHops      string // always or never; empty: as the file says
	daemon        func() (string, error)
}

func scenarioName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".txt") }

// choose reads the environment.
func choose(t *testing.T) choice {
	t.Helper()
	c := choice{worlds: []string{"sim", "netns"},
		daemon: sync.OnceValues(func() (string, error) { return harness.BuildDaemon(t.Context()) })}
	all, err := scenarioFiles()
	if err != nil {
		t.Fatal(err)
	}
	pattern := cmp.Or(os.Getenv("SCENARIO"), "*")
	for _, file := range all {
		ok, err := path.Match(pattern, scenarioName(file))
		if err != nil {
			t.Fatalf("SCENARIO=%s: %v", pattern, err)
		}
		if ok {
			c.files = append(c.files, file)
		}
	}
	if len(c.files) == 0 {
		t.Fatalf("SCENARIO=%s matches none of %s", pattern, strings.Join(all, " "))
	}
	if world := os.Getenv("WORLD"); world != "" && world != "both" {
		if !slices.Contains([]string{"sim", "netns", "vm"}, world) {
			t.Fatalf("WORLD=%s: want sim, netns, vm or both", world)
		}
		c.worlds = []string{world}
	}
	if slices.Contains(c.worlds, "vm") && os.Getenv("SCENARIO") == "" {
		c.files = slices.DeleteFunc(c.files, func(file string) bool { return !forVM(readFile(t, file)) })
	}
	c.fewer = testing.Short() && os.Getenv("SCENARIO") == "" && os.Getenv("WORLD") == ""
	c.files, err = share(c.files, cmp.Or(os.Getenv("SHARE"), "1/1"))
	if err != nil {
		t.Fatalf("SHARE: %v", err)
	}
	if rewriting() && len(c.worlds) > 1 {
		t.Fatal("to record, say from which world: WORLD=sim or WORLD=netns")
	}
	if seed := os.Getenv("SEED"); seed != "" {
		c.seed, err = strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatalf("SEED=%s: %v", seed, err)
		}
	}
	c.nextHops = os.Getenv("NEXTHOPS")
	if c.nextHops != "" && rewriting() {
		t.Fatal("to record, leave out NEXTHOPS: each file says what it needs")
	}
	return c
}

// share returns one of several shares of files, which "1/2" names. Neighbours in the list go to
// different shares: files of one backend take about as long as each other.
func share(files []string, which string) ([]string, error) {
	number, of, _ := strings.Cut(which, "/")
	n, err := strconv.Atoi(number)
	shares, also := strconv.Atoi(of)
	if err != nil || also != nil || n < 1 || n > shares {
		return nil, fmt.Errorf("%q: want a number and the number of shares, such as 1/2", which)
	}
	var mine []string
	for i, file := range files {
		if i%shares == n-1 {
			mine = append(mine, file)
		}
	}
	return mine, nil
}

// rewriting reports whether -rewrite is set.
func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// maker returns a session for a world that is built at the first topology.
func (c choice) maker(t *testing.T, world, file string) *lang.Session {
	t.Helper()
	s := c.plainMaker(t, world, file)
	if c.nextHops != "" {
		if err := s.ForceNextHops(c.nextHops); err != nil {
			t.Fatalf("NEXTHOPS: %v", err)
		}
	}
	return s
}

func (c choice) plainMaker(t *testing.T, world, file string) *lang.Session {
	t.Helper()
	if world == "sim" {
		return simSession(cmp.Or(c.seed, seedOf(t, file)))
	}
	return lang.NewSession(world, func(top lang.Topology) (lang.World, error) {
		daemon, err := c.daemon()
		if err != nil {
			return nil, err
		}
		return labworld.New(top, daemon)
	})
}

// seedOf returns the seed of a file's line "# seed=N", with which its fault was
// found; 1 without one.
func seedOf(t *testing.T, file string) uint64 {
	t.Helper()
	_, rest, found := strings.Cut(readFile(t, file), "\n# seed=")
	if !found {
		return 1
	}
	number, _, _ := strings.Cut(rest, "\n")
	seed, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.Fatalf("%s: # seed=%s: %v", file, number, err)
	}
	return seed
}

func simSession(seed uint64) *lang.Session {
	return lang.NewSession("sim", func(top lang.Topology) (lang.World, error) {
		world, err := simworld.New(top, seed)
		if err == nil {
			world.JudgeClaims()
		}
		return world, err
	})
}

// replay runs a file in a session and adds how it went to the results.
func replay(t *testing.T, s *lang.Session, file string, results *table) {
	started := time.Now()
	defer func() { results.add(t, s, scenarioName(file), time.Since(started)) }()
	if s.WorldName != "sim" {
		if err := harness.Refused(); err != nil {
			t.Skip(err)
		}
		skipWithout(t, file)
	}
	defer finish(t, s)
	defer reportOn(t, s, scenarioName(file))()
	datadriven.RunTest(t, file, func(_ *testing.T, d *datadriven.TestData) string { return s.Run(d) })
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// finish ends a session, and shows the logs of one that failed.
func finish(t *testing.T, s *lang.Session) {
	if t.Failed() && s.World() != nil {
		t.Log("the daemons' logs:\n" + s.World().Logs())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// scenarioFiles lists the cases and the regressions.
func scenarioFiles() ([]string, error) {
	files, err := filepath.Glob("cases/*.txt")
	if err != nil {
		return nil, err
	}
	regressions, err := filepath.Glob("regressions/*.txt")
	return append(files, regressions...), err
}
