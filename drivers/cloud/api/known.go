package api

import "context"

// Known holds what a client has found out about its instance, until a failure casts doubt on it.
// The zero value knows nothing.
type Known[T any] struct{ self *T }

// With calls use with the instance, which find finds out unless it is known. A failure that says
// nothing about the instance ([Expected]) leaves it known.
func (k *Known[T]) With(ctx context.Context, find func(context.Context) (*T, error), use func(*T) error) error {
	if k.self == nil {
		self, err := find(ctx)
		if err != nil {
			return err
		}
		k.self = self
	}
	err := use(k.self)
	if err != nil && !Expected(err) {
		k.Forget()
	}
	return err
}

// Forget makes the next With find out the instance anew.
func (k *Known[T]) Forget() { k.self = nil }
