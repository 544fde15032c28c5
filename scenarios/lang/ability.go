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

// afterArgs is able for a verb that has read all its arguments. An unread argument
// is an error.
func afterArgs[T any](s *Session, of any, a *args) (t T, err error) {
	if err := a.done(); err != nil {
		return t, err
	}
	return able[T](s, of)
}

// nodeWith is able for a node by its name.
func nodeWith[T any](s *Session, name string) (t T, err error) {
	n, err := s.world.Node(name)
	if err != nil {
		return t, err
	}
	return able[T](s, n)
}

// lacks returns the error of a world without a capability.
func lacks(s *Session, capability string) error {
	_, name, _ := strings.Cut("."+capability, ".")
	return fmt.Errorf("world %s has no %s", s.WorldName, name)
}
