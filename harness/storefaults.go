package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness/internal/rpcproxy"
)

// rootUser may do everything in a store with users. Every user's password is
// the user's name.
const rootUser = "root"

// addUsers gives each node a user of its own and switches authentication on.
func (s *Store) addUsers(ctx context.Context) error {
	names := []string{rootUser}
	for _, n := range s.lab.Nodes {
		names = append(names, n.Name)
	}
	for _, name := range names {
		if _, err := s.client.RoleAdd(ctx, name); err != nil {
			return fmt.Errorf("store: add role %s: %w", name, err)
		}
		if _, err := s.client.UserAdd(ctx, name, name); err != nil {
			return fmt.Errorf("store: add user %s: %w", name, err)
		}
		if _, err := s.client.UserGrantRole(ctx, name, name); err != nil {
			return fmt.Errorf("store: grant role %s: %w", name, err)
		}
	}
	for _, n := range s.lab.Nodes {
		if err := s.Deny(ctx, n, false); err != nil {
			return err
		}
	}
	if _, err := s.client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("store: enable authentication: %w", err)
	}
	s.users = true
	if err := s.closeClient(); err != nil {
		return err
	}
	var err error
	s.client, err = s.newClient()
	return err
}

// ErrNoProxy and errNoUsers say that the lab was built without the parts that a
// fault needs. The fault then has no effect.
var (
	errNoUsers = errors.New("the lab was built without Options.StoreUsers")
	ErrNoProxy = errors.New("the lab was built without Options.StoreProxy")
)

// Deny revokes all permissions of a node's user on flannel's keys, or restores
// them. A running watch continues: etcd checks permissions only when it begins.
func (s *Store) Deny(ctx context.Context, n *Node, on bool) error {
	if !s.lab.Options.StoreUsers {
		return errNoUsers
	}
	end := clientv3.GetPrefixRangeEnd(Prefix)
	var err error
	if on {
		_, err = s.client.RoleRevokePermission(ctx, n.Name, Prefix, end)
	} else {
		_, err = s.client.RoleGrantPermission(ctx, n.Name, Prefix, end, clientv3.PermissionType(clientv3.PermReadWrite))
	}
	if err != nil {
		return fmt.Errorf("store: deny %t to %s: %w", on, n.Name, err)
	}
	return nil
}

// ForgetToken ends the session of a node's user, so that the node must log in again.
func (s *Store) ForgetToken(ctx context.Context, n *Node) error {
	if !s.lab.Options.StoreUsers {
		return errNoUsers
	}
	if _, err := s.client.UserChangePassword(ctx, n.Name, n.Name); err != nil {
		return fmt.Errorf("store: forget the session of %s: %w", n.Name, err)
	}
	return nil
}

// Alarm raises the alarm that etcd raises when its database has reached its quota, or ends it.
func (s *Store) Alarm(ctx context.Context, on bool) error {
	alarm := pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if on {
		alarm.Action = pb.AlarmRequest_ACTIVATE
	}
	if _, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(ctx, &alarm); err != nil {
		return fmt.Errorf("store: alarm %t: %w", on, err)
	}
	return nil
}

// noMember is an address without a listener.
const noMember = "http://127.0.0.1:1"

// LoseLeader makes etcd wait for a second member that does not exist: the
// remaining half of the cluster elects no leader and serves no request.
func (s *Store) LoseLeader(ctx context.Context) error {
	if _, err := s.client.MemberAdd(ctx, []string{noMember}); err != nil {
		return fmt.Errorf("store: add a member: %w", err)
	}
	return s.Await(ctx, "etcd to have no leader", func() (bool, error) {
		status, err := s.client.Status(ctx, s.Endpoint())
		return err == nil && status.Leader == 0, nil
	})
}

// ElectLeader undoes LoseLeader: it starts etcd again as the only member of its
// cluster.
func (s *Store) ElectLeader(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start(ctx, true)
}

// proxyPort is the port of the proxy, if there is one.
const proxyPort = storePort - 1

// startProxy puts a proxy in front of the store, for as long as the lab lives.
func (s *Store) startProxy() error {
	l, err := s.Listen(netip.AddrPortFrom(s.Addr(cidr.V4), proxyPort))
	if err != nil {
		return fmt.Errorf("store: listen for its proxy: %w", err)
	}
	s.proxy, err = rpcproxy.Start(rpcproxy.Options{
		Listener: l,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return s.Dial(ctx, "tcp", netip.AddrPortFrom(s.Addr(cidr.V4), storePort).String())
		},
		Stream: func(method string) bool { return strings.HasSuffix(method, "/Watch") },
	})
	return err
}

func (s *Store) closeProxy() error {
	if s.proxy == nil {
		return nil
	}
	return s.proxy.Close()
}

// Fate says how a request to the store ends.
type Fate = rpcproxy.Fate

// The fates.
const (
	FateLost       = rpcproxy.Lost
	FateUnanswered = rpcproxy.Unanswered
	FateLate       = rpcproxy.Late
)

// Chances are the probabilities of each fate for any request.
type Chances = rpcproxy.Chances

// Meet sets the fate of a node's next requests. It disturbs neither watches nor
// the lab's own requests.
func (s *Store) Meet(n *Node, fates ...Fate) error {
	if s.proxy == nil {
		return ErrNoProxy
	}
	for _, f := range s.lab.families() {
		s.proxy.Next(n.Underlay(f).Addr(), fates...)
	}
	return nil
}

// Disturb changes the chances of all nodes' requests.
func (s *Store) Disturb(change func(*Chances)) error {
	if s.proxy == nil {
		return ErrNoProxy
	}
	s.proxy.Change(change)
	return nil
}
