package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flanneld/flannel/harness"
)

// everything is the packages that a run without folders scores.
var everything = []string{"core/...", "drivers/etcd/...", "drivers/kube/..."}

// testHelpers are packages of test code, which have no tests of their own.
var testHelpers = []string{"kubetest"}

func main() {
	harness.Reexec()
	j := job{limits: limits{apart: true, grace: 5 * time.Second}}
	flag.IntVar(&j.sample, "n", 40, "the number of mutants of each package to try; 0: all")
	flag.Uint64Var(&j.seed, "seed", 1, "the seed of the sample")
	flag.IntVar(&j.seeds, "seeds", 200, "the number of seeds that the random search runs; 0: only unit tests")
	flag.IntVar(&j.workers, "j", runtime.NumCPU(), "the number of mutants to try in parallel")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, j, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run scores the packages in the folders, one after the other.
func run(ctx context.Context, j job, folders []string) error {
	var err error
	j.root, err = os.Getwd()
	if err != nil {
		return err
	}
	err = limitMemory()
	if err != nil {
		return err
	}
	rows, err := readAccepted(j.root)
	if err != nil {
		return err
	}
	if len(folders) == 0 {
		folders = everything
	}
	packages, err := load(j.root, folders)
	if err != nil {
		return err
	}
	fmt.Printf("sample of %d a package from seed %d, search of %d seeds\n", j.sample, j.seed, j.seeds)
	var scores []score
	for _, m := range packages {
		if len(m.mutants) == 0 || isTestHelper(m.folder) {
			continue
		}
		began := time.Now()
		s, err := j.score(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.folder, err)
		}
		fmt.Printf("\n%s, %s\n", m.folder, time.Since(began).Round(time.Second))
		printSurvivors(os.Stdout, s, rows)
		scores = append(scores, s)
	}
	fmt.Println()
	printTable(os.Stdout, scores, rows)
	return nil
}

func isTestHelper(folder string) bool {
	return slices.ContainsFunc(testHelpers, func(name string) bool { return strings.HasSuffix(folder, "/"+name) })
}
