package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	list := flag.Bool("list", false, "print each finding instead of the counts")
	held := flag.String("held", "", "rules, or all: print only their findings, and exit with status 1 if there is one")
	flag.Parse()
	findings, err := checkTree(".", flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	}
	switch {
	case *held != "":
		findings = of(*held, findings)
		printList(os.Stdout, findings)
		if len(findings) > 0 {
			os.Exit(1)
		}
	case *list:
		printList(os.Stdout, findings)
	default:
		printCounts(os.Stdout, findings)
	}
}

// of returns the findings of these rules, separated by commas.
func of(held string, findings []finding) []finding {
	return slices.DeleteFunc(findings, func(f finding) bool {
		return held != "all" && !slices.Contains(strings.Split(held, ","), f.rule)
	})
}

// checkTree returns the findings below root, sorted by place. Folders limits
// them to these folders; without any it is the whole tree.
func checkTree(root string, folders []string) ([]finding, error) {
	files, err := readTree(root)
	if err != nil {
		return nil, err
	}
	var all []finding
	for _, f := range files {
		found, err := checkFile(f)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	order, err := checkMapOrder(root, "./core/...")
	if err != nil {
		return nil, err
	}
	all = append(all, allowed(order, files)...)
	all = slices.DeleteFunc(all, func(f finding) bool { return !isBelow(f.file, folders) })
	slices.SortFunc(all, compareFindings)
	return all, nil
}

// isBelow reports whether the file lies in one of the folders, or whether there
// are none.
func isBelow(file string, folders []string) bool {
	return len(folders) == 0 || slices.ContainsFunc(folders, func(folder string) bool {
		folder = path.Clean(strings.TrimSuffix(folder, "/..."))
		return folder == "." || strings.HasPrefix(file, folder+"/")
	})
}

func printList(w io.Writer, findings []finding) {
	for _, f := range findings {
		fmt.Fprintln(w, f)
	}
}

// printCounts prints a table with a line for each package that has findings, a
// column for each rule, and the sums.
func printCounts(w io.Writer, findings []finding) {
	counts := map[string]map[string]int{}
	sums := map[string]int{}
	for _, f := range findings {
		folder := path.Dir(f.file)
		if counts[folder] == nil {
			counts[folder] = map[string]int{}
		}
		counts[folder][f.rule]++
		sums[f.rule]++
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\tall\t\n", strings.Join(rules, "\t"))
	folders := make([]string, 0, len(counts))
	for folder := range counts {
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	for _, folder := range folders {
		printRow(table, counts[folder], folder)
	}
	printRow(table, sums, "all")
	table.Flush()
}

func printRow(w io.Writer, counts map[string]int, name string) {
	all := 0
	for _, rule := range rules {
		all += counts[rule]
		if counts[rule] == 0 {
			fmt.Fprint(w, ".\t")
		} else {
			fmt.Fprintf(w, "%d\t", counts[rule])
		}
	}
	fmt.Fprintf(w, "%d\t  %s\n", all, name)
}
