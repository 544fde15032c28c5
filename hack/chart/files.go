package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// generated says in a file how the file is made.
const generated = "made by hack/chart (make manifest)"

// The marks around the table in the manual.
const (
	manual     = "docs/kubernetes.md"
	tableBegin = "<!-- values: " + generated + " -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// files returns the wanted content of every file below root that this program writes.
func files(root string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(root, manual))
	if err != nil {
		return nil, err
	}
	before, rest, begins := strings.Cut(string(page), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return nil, fmt.Errorf("%s has no %q and %q around the table", manual, tableBegin, tableEnd)
	}
	made := map[string]string{}
	for name, content := range map[string]func() (string, error){
		"deploy/chart/values.yaml":             valuesFile,
		"deploy/chart/values.schema.json":      schemaFile,
		"deploy/chart/templates/_backends.tpl": backendsTemplate,
		manual:                                 table,
	} {
		made[name], err = content()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	made[manual] = before + tableBegin + made[manual] + tableEnd + after
	return made, nil
}

// valuesFile returns values.yaml: the defaults, and a comment for each.
func valuesFile() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# The values of the chart, %s.\n# values.schema.json checks them.\n", generated)
	var open []string
	for _, v := range values() {
		path := strings.Split(v.name, ".")
		shared := 0
		for shared < len(open) && shared < len(path)-1 && open[shared] == path[shared] {
			shared++
		}
		b.WriteByte('\n')
		for depth := shared; depth < len(path)-1; depth++ {
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", depth), path[depth])
		}
		open = path[:len(path)-1]
		indent := strings.Repeat("  ", len(open))
		b.WriteString(fold(v.help, indent+"# ", 100))
		leaf, err := yaml.Marshal(object{path[len(path)-1]: v.byDefault})
		if err != nil {
			return "", fmt.Errorf("default of %s: %w", v.name, err)
		}
		for line := range strings.Lines(string(leaf)) {
			b.WriteString(strings.TrimRight(indent+strings.TrimRight(line, "\n"), " ") + "\n")
		}
	}
	return b.String(), nil
}

// fold breaks text into lines with a prefix.
func fold(text, prefix string, width int) string {
	var b strings.Builder
	line := prefix
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > width && line != prefix {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// schemaFile returns values.schema.json.
func schemaFile() (string, error) {
	top := object{
		"$schema": "http://json-schema.org/draft-07/schema#", "$comment": generated,
		"type": "object", "additionalProperties": false, "properties": object{},
		"anyOf": []any{
			object{"properties": object{"podCidr": object{"minLength": 1}}},
			object{"properties": object{"podCidrv6": object{"minLength": 1}}},
		},
	}
	for _, v := range values() {
		path := strings.Split(v.name, ".")
		in := top
		for _, name := range path[:len(path)-1] {
			in = child(in, name)
		}
		leaf := object{"description": v.help}
		for member, want := range v.schema {
			leaf[member] = want
		}
		in["properties"].(object)[path[len(path)-1]] = leaf
		if v.required() {
			require(top, path)
		}
	}
	// Other charts of the same release have values of their own there, and null means none.
	global := child(top, "global")
	delete(global, "additionalProperties")
	global["type"] = []any{"object", "null"}
	return encode(top)
}

// child returns the schema of a member that is an object, and makes it first if it is new.
func child(of object, name string) object {
	members := of["properties"].(object)
	if members[name] == nil {
		members[name] = object{"type": "object", "additionalProperties": false, "properties": object{}}
	}
	return members[name].(object)
}

// require demands a member and the objects that it is in. Helm removes a value that is null
// before it asks the schema, so this is the error that a null gets.
func require(in object, path []string) {
	for _, name := range path {
		names, _ := in["required"].([]string)
		if !slices.Contains(names, name) {
			in["required"] = append(names, name)
		}
		in, _ = in["properties"].(object)[name].(object)
	}
}

// encode returns indented JSON.
func encode(v any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return b.String(), err
}

// backendsTemplate returns what the templates need of the registry, as JSON: for each backend that
// runs in the container, its options by the name of their value, and the defaults of these.
func backendsTemplate() (string, error) {
	names, byName := options()
	members := object{}
	for _, s := range offered() {
		members[s.Type] = object{}
	}
	defaults := object{}
	for _, name := range names {
		defaults[name] = optionValue(name, byName[name]).byDefault
		for _, o := range byName[name] {
			members[o.backend].(object)[name] = o.Name
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{{/* The registry of backends, %s. */}}\n", generated)
	fmt.Fprintf(&b, "{{- define \"flannel.repository\" -}}%s{{- end -}}\n", repository)
	for _, part := range []struct {
		name string
		of   object
	}{{"backends", members}, {"defaults", defaults}} {
		text, err := encode(part.of)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "{{- define \"flannel.%s\" -}}\n%s{{- end -}}\n", part.name, text)
	}
	return b.String(), nil
}

// table returns the manual's table of values.
func table() (string, error) {
	var b strings.Builder
	b.WriteString("| Value | Default | |\n|---|---|---|\n")
	for _, v := range values() {
		byDefault := ""
		switch {
		case v.name == "flannel.cniConf":
			byDefault = "see values.yaml"
		case v.byDefault != "":
			text, err := json.Marshal(v.byDefault)
			if err != nil {
				return "", err
			}
			byDefault = "`" + strings.Trim(string(text), `"`) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.name, byDefault, strings.ReplaceAll(v.help, "|", `\|`))
	}
	return b.String(), nil
}
