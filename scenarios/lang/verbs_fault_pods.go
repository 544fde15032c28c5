package lang

import "errors"

// faultPods performs "fault n2 pods mtu=1450": the node's pods are older than its
// subnet file, and have another MTU, until that file changes.
func faultPods(s *Session, _ string, n Node, a *args, _ string) error {
	mtu := 0
	a.integer("mtu", &mtu)
	if err := a.done(); err != nil {
		return err
	}
	if mtu == 0 {
		return errors.New("fault pods: want mtu=N")
	}
	pods, err := able[PodOwner](s, n)
	if err != nil {
		return err
	}
	return pods.SetPodMTU(mtu)
}
