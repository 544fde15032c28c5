package flannelctl

import (
	"encoding"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/change"
	"github.com/flanneld/flannel/tools/check"
	"github.com/flanneld/flannel/tools/cleanup"
	"github.com/flanneld/flannel/tools/leases"
	"github.com/flanneld/flannel/tools/mesh"
	"github.com/flanneld/flannel/tools/migrate"
	"github.com/flanneld/flannel/tools/netconfig"
	"github.com/flanneld/flannel/tools/ping"
	"github.com/flanneld/flannel/tools/schema"
	"github.com/flanneld/flannel/tools/trace"
)

// results are the types of what each command prints. The result of config get is any JSON.
var results = map[string][]reflect.Type{
	"change":           {reflect.TypeFor[change.Report]()},
	"check":            {reflect.TypeFor[check.Report]()},
	"cleanup":          {reflect.TypeFor[cleanup.Result]()},
	"config get":       nil,
	"config set":       {reflect.TypeFor[netconfig.Report]()},
	"config validate":  {reflect.TypeFor[netconfig.Report]()},
	"diff":             {reflect.TypeFor[control.Diff]()},
	"dump":             {reflect.TypeFor[dumped]()},
	"leases list":      {reflect.TypeFor[leases.List]()},
	"leases release":   {reflect.TypeFor[done]()},
	"leases reserve":   {reflect.TypeFor[done]()},
	"leases show":      {reflect.TypeFor[leases.Record]()},
	"leases unreserve": {reflect.TypeFor[done]()},
	"mesh":             {reflect.TypeFor[mesh.Result]()},
	"migrate etcd-v2":  {reflect.TypeFor[migrate.Result]()},
	"peers":            {reflect.TypeFor[control.Peers]()},
	"ping":             {reflect.TypeFor[ping.Result]()},
	"report":           {reflect.TypeFor[reported]()},
	"schema":           {reflect.TypeFor[described]()},
	"status":           {reflect.TypeFor[node.Status]()},
	"trace":            {reflect.TypeFor[trace.Result](), reflect.TypeFor[trace.Journey]()},
	"version":          {reflect.TypeFor[versions]()},
}

// TestSchemas compares the schemas with the types. With UPDATE=1 it writes them again.
func TestSchemas(t *testing.T) {
	g := schema.New("../..")
	for command, types := range results {
		doc, err := g.Of("the result of flannelctl "+command, types...)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		file := schemaFile(command)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := schemaFiles.ReadFile(file)
		if err != nil {
			t.Errorf("%v: run UPDATE=1 go test ./tools/flannelctl -run TestSchemas", err)
			continue
		}
		if d := cmp.Diff(string(want), string(have)); d != "" {
			t.Errorf("%s: run UPDATE=1 go test ./tools/flannelctl -run TestSchemas (-want +have):\n%s", file, d)
		}
	}
}

// TestEachCommandHasASchema looks for commands without one, and for schemas without a command.
func TestEachCommandHasASchema(t *testing.T) {
	for _, name := range []string{"man", "docker-opts"} { // they write files, and print no result
		results[name] = nil
		defer delete(results, name)
	}
	root := (&app{}).root()
	var all []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() && c != root {
			all = append(all, strings.TrimPrefix(c.CommandPath(), "flannelctl "))
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	slices.Sort(all)
	if d := cmp.Diff(slices.Sorted(maps.Keys(results)), all); d != "" {
		t.Errorf("commands (-with a schema +all):\n%s", d)
	}
}

// strict reads the schema of a command as flannelctl prints it, without room for unknown members.
func strict(t *testing.T, command string) *jsonschema.Resolved {
	t.Helper()
	status, stdout, stderr := call(append([]string{"schema"}, strings.Fields(command)...)...)
	if status != statusOK {
		t.Fatalf("schema %s: status %d: %s", command, status, stderr)
	}
	var doc jsonschema.Schema
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatal(err)
	}
	for _, def := range doc.Defs {
		def.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	resolved, err := doc.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// fits checks a document against a schema.
func fits(t *testing.T, s *jsonschema.Resolved, text []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestValuesFitTheirSchemas draws values of each type, from the zero value to full ones.
func TestValuesFitTheirSchemas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for command, types := range results {
		s := strict(t, command)
		for _, typ := range types {
			for round := range 20 {
				v := reflect.New(typ)
				if round > 0 {
					fill(random, v.Elem())
				}
				text, err := json.Marshal(v.Interface())
				if err != nil {
					t.Fatal(err)
				}
				fits(t, s, text)
			}
		}
	}
	var value any = map[string]any{"Hops": "none"}
	if err := strict(t, "trace").Validate(value); err == nil {
		t.Error("the schema of trace takes anything")
	}
}

// fill gives a value random content, with empty and missing parts.
func fill(random *rand.Rand, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		if random.IntN(3) > 0 { // else it is not known
			*p = time.Unix(int64(random.Uint32()), 0)
		}
		return
	case *netip.Addr:
		*p = netip.AddrFrom4([4]byte{10, 5, byte(random.Uint32()), 1})
		return
	case *lease.Key:
		*p = lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(random.Uint32()), 0}), 24)}
		return
	case encoding.TextUnmarshaler:
		return // the zero value
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(random.Int64() >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(random.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(random.Float64())
	case reflect.String:
		v.SetString([]string{"", "a", "\u00e4 \"b\""}[random.IntN(3)])
	case reflect.Pointer:
		if random.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(3), 3))
		for i := range v.Len() {
			fill(random, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(random, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(random, key)
		fill(random, elem)
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(random, v.Field(i))
			}
		}
	}
}
