package kube

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flanneld/flannel/internal/pause"
)

// The node condition NetworkUnavailable keeps the scheduler off a node until
// flannel reports the network as up (interop 5.6: NetworkUnavailable). The
// store reads and writes nothing else of a node's status, and only of our own
// node.

const (
	nodeStatus protowire.Number = 3 // v1.Node

	statusConditions protowire.Number = 4 // v1.NodeStatus
	conditionType    protowire.Number = 1 // v1.NodeCondition
	conditionStatus  protowire.Number = 2

	networkUnavailable = "NetworkUnavailable"
)

// standing is the last reported network condition of our own node object.
type standing struct {
	uid      string // "": no such object is known
	status   string // of the condition; "": it has none
	revision int64
}

// standingOf reads the condition of a node. A status that cannot be read has none.
func standingOf(it item) standing {
	at := standing{it.node.UID, "", it.revision}
	_ = fields(it.status, func(n protowire.Number, content []byte, _ uint64) error {
		if n != statusConditions {
			return nil
		}
		kind, status, err := pair(content, conditionType, conditionStatus)
		if string(kind) == networkUnavailable {
			at.status = string(status)
		}
		return err
	})
	return at
}

// saw records the state of our own node. It believes a listing whatever its
// revision, since revisions may have begun again. The caller holds mu.
func (s *Store) saw(it item, listed bool) {
	if it.node.Name == s.node && (listed || it.revision > s.own.revision) {
		s.own = standingOf(it)
	}
}

// Available publishes that the node's network is up. It does not wait: the store
// retries until it has written the condition, and writes it again whenever the node
// object is replaced or another program reverts it (interop K5: upstream writes once).
func (s *Store) Available() {
	s.mu.Lock()
	s.available = s.o.SetNetworkUnavailable
	s.mu.Unlock()
	s.moved.Send()
}

// lacking returns the state of our node, and whether the condition has to be written.
func (s *Store) lacking() (standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own, s.available && s.own.uid != "" && s.own.status != "False"
}

// mostDispute is the longest interval of writes while another program reverts the
// condition over and over: each write wakes all watchers of nodes.
const mostDispute = 5 * time.Minute

func (s *Store) publishCondition() {
	var d, dispute delay
	var told standing // at the last write of the condition
	var at time.Time
	for {
		select {
		case <-s.moved:
		case <-s.ctx.Done():
			return
		}
		for s.ctx.Err() == nil {
			own, lacks := s.lacking()
			if !lacks {
				break
			}
			if own.uid == told.uid {
				if time.Since(at) > mostDispute {
					dispute = 0
				}
				s.o.Log.Warn("another program took back the node condition NetworkUnavailable; writing it again",
					"node", s.node, "status", own.status)
				pause.For(s.ctx, dispute.next(mostDispute))
			}
			if err := s.tellCondition(own.uid); err != nil {
				if d == 0 {
					s.o.Log.Warn("the node condition NetworkUnavailable could not be written; trying again",
						"node", s.node, "err", explain(err, "patch nodes/status"))
				}
				pause.For(s.ctx, d.next(mostDelay)+retryAfter(err))
				continue
			}
			told = own
			at = time.Now()
			d = 0
		}
	}
}

// nodeCondition is one condition in a patch.
type nodeCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastHeartbeatTime  string `json:"lastHeartbeatTime"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

func (s *Store) tellCondition(uid string) error {
	now := timestamp(time.Now())
	patch, err := json.Marshal(nodePatch{metadata{UID: uid}, &status{[]nodeCondition{{
		Type: networkUnavailable, Status: "False", Reason: "FlannelIsUp", Message: "Flannel is running on this node",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	it, err := s.api.patch(ctx, s.node, patch)
	if err == nil {
		s.take(it)
	}
	return err
}
