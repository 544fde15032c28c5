package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Draft is the version of JSON Schema.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Generator makes schemas. Each struct has one definition, to which its uses refer.
type Generator struct {
	comments comments
	defs     map[string]*jsonschema.Schema
}

// New returns a generator that reads the comments below the root of this module.
func New(root string) *Generator { return &Generator{comments: comments{root: root}} }

// Of returns the schema of a document that is one of the types.
func (g *Generator) Of(title string, types ...reflect.Type) (*jsonschema.Schema, error) {
	g.defs = map[string]*jsonschema.Schema{}
	doc := &jsonschema.Schema{}
	for _, t := range types {
		one, err := g.of(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", title, err)
		}
		doc.AnyOf = append(doc.AnyOf, one)
	}
	if len(doc.AnyOf) == 1 {
		doc = doc.AnyOf[0]
	}
	doc.Schema, doc.Title = Draft, title
	doc.Defs = g.defs
	return doc, nil
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// of returns the schema of a type.
func (g *Generator) of(t reflect.Type) (*jsonschema.Schema, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}, nil
	case t == reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: "nanoseconds"}, nil
	case t.Kind() == reflect.Pointer:
		elem, err := g.of(t.Elem())
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "null"}, elem}}, err
	case t.Implements(textMarshaler) && !t.Implements(marshaler):
		return &jsonschema.Schema{Type: "string"}, nil
	case t.Implements(marshaler):
		return nil, fmt.Errorf("%s writes its JSON itself", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &jsonschema.Schema{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(0.0)}, nil
	case reflect.Float32, reflect.Float64:
		return &jsonschema.Schema{Type: "number"}, nil
	case reflect.String:
		return g.text(t)
	case reflect.Slice:
		elem, err := g.of(t.Elem())
		return &jsonschema.Schema{Types: []string{"array", "null"}, Items: elem}, err
	case reflect.Array:
		elem, err := g.of(t.Elem())
		return &jsonschema.Schema{Type: "array", Items: elem,
			MinItems: jsonschema.Ptr(t.Len()), MaxItems: jsonschema.Ptr(t.Len())}, err
	case reflect.Map:
		elem, err := g.of(t.Elem())
		return &jsonschema.Schema{Types: []string{"object", "null"}, AdditionalProperties: elem}, err
	case reflect.Struct:
		return g.object(t)
	}
	return nil, fmt.Errorf("%s has no JSON form", t)
}

// text returns the schema of a string, with the constants of its type as examples.
func (g *Generator) text(t reflect.Type) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{Type: "string"}
	if t.PkgPath() == "" {
		return s, nil
	}
	about, err := g.comments.of(t)
	for _, text := range about.constants {
		s.Examples = append(s.Examples, text)
	}
	return s, err
}

// object returns a reference to the definition of a struct.
func (g *Generator) object(t reflect.Type) (*jsonschema.Schema, error) {
	name := path.Base(t.PkgPath()) + "." + t.Name()
	ref := &jsonschema.Schema{Ref: "#/$defs/" + name}
	if g.defs[name] != nil {
		return ref, nil
	}
	about, err := g.comments.of(t)
	if err != nil {
		return nil, err
	}
	def := &jsonschema.Schema{Type: "object", Description: about.doc, Properties: map[string]*jsonschema.Schema{}}
	g.defs[name] = def
	return ref, g.addFields(def, t)
}

// addFields adds the fields of a struct to its definition, as encoding/json sees them: those of an
// embedded struct are its own.
func (g *Generator) addFields(def *jsonschema.Schema, t reflect.Type) error {
	about, err := g.comments.of(t)
	if err != nil {
		return err
	}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if err := g.addFields(def, f.Type); err != nil {
				return err
			}
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		s, err := g.of(f.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		s.Description = joined(about.fields[f.Name], s.Description)
		def.Properties[name] = s
		def.PropertyOrder = append(def.PropertyOrder, name)
		if !omitted(options) {
			def.Required = append(def.Required, name)
		}
	}
	return nil
}

// omitted reports whether the options of a field's tag let encoding/json leave it out.
func omitted(options string) bool {
	all := strings.Split(options, ",")
	return slices.Contains(all, "omitempty") || slices.Contains(all, "omitzero")
}

func joined(a, b string) string {
	if a == "" || b == "" || strings.Contains(a, b) {
		return a + b
	}
	return a + "; " + b
}
