// Command deploy renders the manifest that users apply from the Helm chart, which
// is the one source of both:
//
//	deploy [-f values.yaml] [-set flannel.backend=wireguard] CHART > kube-flannel.yml
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
)

func main() {
	values, isSet := map[string]any{}, false
	flag.Func("f", "a `file` with values, as helm's -f (repeatable, before -set)", func(path string) error {
		if isSet {
			return errors.New("-set comes after all files, whose values it replaces")
		}
		file, err := chartutil.ReadValuesFile(path)
		values = chartutil.MergeTables(file, values)
		return err
	})
	flag.Func("set", "a `value` of the chart, as helm's --set (repeatable)", func(text string) error {
		isSet = true
		return strvals.ParseInto(text, values)
	})
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: deploy [-f FILE] [-set NAME=VALUE] CHART")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	text, err := manifest(flag.Arg(0), values)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// order is the order in which the objects need each other.
var order = []string{"namespace", "rbac", "configmap", "daemonset"}

const heading = `# The pod network flannel: kubectl apply -f this file. It is made from the Helm
# chart in deploy/chart (make manifest).
# Network in the ConfigMap is the cluster CIDR of the controller manager.
`

// manifest renders the chart with values and with its namespace, kube-flannel.
func manifest(dir string, values map[string]any) (string, error) {
	values["namespace"] = map[string]any{"create": true}
	files, err := render(dir, values)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(heading)
	for _, name := range order {
		text, ok := files[name]
		if !ok {
			return "", fmt.Errorf("chart %s has no template %s", dir, name)
		}
		fmt.Fprintf(&b, "---\n%s\n", strings.TrimSpace(text))
		delete(files, name)
	}
	delete(files, notes)
	for name, text := range files {
		if strings.TrimSpace(text) != "" {
			return "", fmt.Errorf("chart %s has a template %s, which has no place in the order %v", dir, name, order)
		}
	}
	return b.String(), nil
}

// notes names the template of the text that Helm prints for people.
const notes = "NOTES.txt"

// render returns the text of each template, by its name without .yaml.
func render(dir string, values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", dir, err)
	}
	release := chartutil.ReleaseOptions{Name: "flannel", Namespace: "kube-flannel", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("values of chart %s: %w", dir, err)
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, fmt.Errorf("render chart %s: %w", dir, err)
	}
	files := map[string]string{}
	for path, text := range rendered {
		base := path[strings.LastIndexByte(path, '/')+1:]
		name, isObject := strings.CutSuffix(base, ".yaml")
		if isObject || name == notes {
			files[name] = text
		}
	}
	missing := slices.DeleteFunc(slices.Clone(order), func(name string) bool {
		_, ok := files[name]
		return ok
	})
	if len(missing) > 0 {
		return nil, fmt.Errorf("chart %s has no templates %v", dir, missing)
	}
	return files, nil
}
