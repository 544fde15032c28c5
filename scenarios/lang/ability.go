package lang

import (
	"fmt"
	"reflect"
	"strings"
)

// able asks a world, node or store for a further interface. The error names
// the world and the missing interface.
func able[T any](s *Session, of any) (T, error) {
	t, ok := of.(T)
	if !ok {
		return t, lacks(s, reflect.TypeFor[T]().Name())
	}
	return t, nil
}

// lacks returns the error of a world without a capability.
func lacks(s *Session, capability string) error {
	_, name, _ := strings.Cut("."+capability, ".")
	return fmt.Errorf("world %s has no %s", s.WorldName, name)
}
