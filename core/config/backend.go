package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Decode reads the backend's options into a struct of plain fields named as the
// members. Fields whose member is absent or null keep their value. An error
// names the member, its value and the values allowed.
func (b Backend) Decode(into any) error {
	if len(b.Options) == 0 {
		return nil
	}
	err := json.Unmarshal(b.Options, into)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	return fmt.Errorf("Backend %s %s: want %s", wrong.Field, b.valueAt(wrong.Offset), wanted(wrong.Type))
}

// valueAt returns the text of the member whose value lies at an offset.
func (b Backend) valueAt(offset int64) string {
	var value json.RawMessage
	d := json.NewDecoder(bytes.NewReader(b.Options))
	_, err := d.Token() // the opening brace
	for err == nil && d.InputOffset() < offset {
		_, err = d.Token() // the member's name
		if err == nil {
			err = d.Decode(&value)
		}
	}
	return excerpt(value)
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		return fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-t.Bits()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return "a whole number"
	}
	return "a " + t.String()
}
