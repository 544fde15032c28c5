package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
)

// repository is the place of the default image.
const repository = "ghcr.io/flanneld/flannel"

// tunDevice is the file of the host that the chart can mount.
const tunDevice = "/dev/net/tun"

// offered returns the backends that run in the container. The chart has no values for
// the credentials of a cloud provider.
func offered() []backend.Spec {
	return slices.DeleteFunc(all.Specs(), func(s backend.Spec) bool {
		return s.Needs != "" && s.Needs != tunDevice || slices.Contains(s.Lanes, "cloud")
	})
}

func backendList() string {
	var names []string
	for _, s := range offered() {
		names = append(names, s.Type)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// option is an option of a backend that the chart has as a value.
type option struct {
	backend string
	backend.Option
}

// options returns the options in the order of the registry, grouped by their value.
func options() (names []string, byName map[string][]option) {
	byName = map[string][]option{}
	for _, s := range offered() {
		for _, o := range s.Options {
			if o.ChartValue == "" {
				continue
			}
			if byName[o.ChartValue] == nil {
				names = append(names, o.ChartValue)
			}
			byName[o.ChartValue] = append(byName[o.ChartValue], option{s.Type, o})
		}
	}
	return names, byName
}

func optionValues() []value {
	names, byName := options()
	var values []value
	for _, name := range names {
		values = append(values, optionValue(name, byName[name]))
	}
	return values
}

// optionValue returns the value for an option that one or more backends have.
func optionValue(name string, of []option) value {
	v := value{name: "flannel." + name, byDefault: decode(of[0].Default), schema: schemaOf(of[0].Option)}
	var helps []string
	backends := map[string]string{} // by the help text that they share
	for _, o := range of {
		help := o.Help + defaultText(o.Option, len(of) > 1) + "."
		if backends[help] == "" {
			helps = append(helps, help)
		} else {
			backends[help] += ", "
		}
		backends[help] += o.backend
		if decode(o.Default) != v.byDefault { // 0 stands for the chosen backend's
			v.byDefault = json.Number("0")
			v.schema = object{"type": "integer", "minimum": 0, "maximum": of[0].Max}
		}
	}
	if v.byDefault == nil { // an option that the daemon ignores
		v.byDefault = ""
	}
	for i, help := range helps {
		helps[i] = backends[help] + ": " + help
	}
	v.help = strings.Join(helps, " ")
	return v
}

// defaultText tells what the chart's default means for an option.
func defaultText(o backend.Option, shared bool) string {
	switch {
	case o.Kind == backend.Key:
		return "; 0 or empty is none"
	case o.Zero != "":
		return "; 0 is " + o.Zero
	case shared && o.Kind == backend.Whole:
		return "; 0 is " + o.Default
	case o.Choices != nil:
		return ": " + strings.Join(o.Choices, ", ")
	}
	return ""
}

// decode returns an option's default as a value of the chart.
func decode(text string) any {
	if text == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		panic(fmt.Sprintf("the registry has the default %s: %v", text, err))
	}
	return v
}

// schemaOf returns the schema of a value for an option.
func schemaOf(o backend.Option) object {
	limits := object{"minimum": o.Min, "maximum": o.Max}
	switch {
	case o.Kind == backend.Switch:
		return truth
	case o.Choices != nil:
		var choices []any
		for _, choice := range o.Choices {
			choices = append(choices, choice)
		}
		return object{"enum": choices}
	case o.Kind == backend.Key: // upstream's values file has 0 for "no key"
		return object{"type": []any{"string", "integer"}, "pattern": o.Pattern, "minimum": 0, "maximum": 0}
	case o.Kind == backend.Text:
		return object{"type": "string", "pattern": o.Pattern}
	case o.Zero != "" && o.Min > 1:
		return object{"type": "integer", "anyOf": []any{object{"const": 0}, limits}}
	case o.Zero != "":
		limits["minimum"] = 0
	}
	limits["type"] = "integer"
	return limits
}
