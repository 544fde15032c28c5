package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// secondHealthPort is the health port of a second daemon. With the first daemon's
// port it would exit at once.
const secondHealthPort = healthPort + 1

// StartSecond starts another daemon on the node, and waits until it is ready: before that it has done
// nothing. Without extra flags it has the same files, as if an operator had started it by mistake.
func (n *Node) StartSecond(ctx context.Context, extra ...string) (err error) {
	if n.second != nil && n.second.State() == nil {
		return fmt.Errorf("node %s: start a second daemon: it runs already", n.Name)
	}
	extra = append([]string{fmt.Sprintf("--healthz-port=%d", secondHealthPort)}, extra...)
	n.second, err = n.launch(n.file("second.log"), extra)
	if err != nil {
		return err
	}
	return n.Await(ctx, "the second daemon to be ready", func() (bool, error) {
		if state := n.second.State(); state != nil {
			return false, fmt.Errorf("node %s: the second daemon ended: %v", n.Name, state)
		}
		status, _, err := n.get(ctx, secondHealthPort, "/readyz")
		return err == nil && status == http.StatusOK, nil
	})
}

// EndSecond kills the second daemon, if there is one, and restarts the first,
// which cannot know what the other wrote to its files.
func (n *Node) EndSecond() error {
	if n.second == nil {
		return nil
	}
	if err := n.killSecond(); err != nil || !n.Running() {
		return err
	}
	return errors.Join(n.Kill(), n.Start())
}

func (n *Node) killSecond() error {
	if n.second == nil {
		return nil
	}
	second := n.second
	n.second = nil
	if err := second.Kill(); err != nil {
		return fmt.Errorf("node %s: the second daemon: %w", n.Name, err)
	}
	return nil
}
