// Package wake tells a reader that something has changed, without waiting for it.
package wake

// Signal tells one reader that something has changed. It holds one value at most, so all
// changes before the reader takes that value are one.
type Signal chan struct{}

// NewSignal returns a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send signals a change. It does not wait for the reader.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default: // the reader has not yet taken the last one
	}
}
