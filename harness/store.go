package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/harness/internal/netspace"
	"github.com/flanneld/flannel/harness/internal/rpcproxy"
)

// Prefix is the key that holds all data of the nodes.
const Prefix = "/coreos.com/network"

const storePort = 2379

// Store is the etcd of a lab: a process on a host of its own.
type Store struct {
	*Host
	proc   *netspace.Process // nil before the first Start and after the end
	client *clientv3.Client
	users  bool            // clients need a user and password
	proxy  *rpcproxy.Proxy // between the nodes and the store, if asked for
}

func (l *Lab) addStore(ctx context.Context) (err error) {
	h, err := l.newHost("store")
	if err != nil {
		return err
	}
	l.Store = &Store{Host: h}
	if err := l.plugWithDefault(ctx, l.segments[0], h, storeHost); err != nil {
		return err
	}
	return l.Store.makeRoomForCuts()
}

// cutPriority is the priority of the rules that cut a node off from the store.
const cutPriority = 1

// makeRoomForCuts moves the rule for the local table, which comes first and
// accepts every packet for this host, behind the rules of CutFrom.
func (s *Store) makeRoomForCuts() error {
	return eachFamily(func(f cidr.Family) error {
		local := netlink.NewRule()
		local.Family = nlFamily(f)
		local.Table = unix.RT_TABLE_LOCAL
		local.Priority = cutPriority + 1
		if err := s.nl.RuleAdd(local); err != nil {
			return fmt.Errorf("store: add a later rule for the local table: %w", err)
		}
		local.Priority = 0
		if err := s.nl.RuleDel(local); err != nil {
			return fmt.Errorf("store: delete the first rule for the local table: %w", err)
		}
		return nil
	})
}

// Addr returns the store's address on the underlay.
func (s *Store) Addr(f cidr.Family) netip.Addr { return underlayAddr(f, 0, storeHost).Addr() }

// Endpoint returns etcd's URL.
func (s *Store) Endpoint() string { return s.endpoint(cidr.V4, storePort) }

func (s *Store) endpoint(f cidr.Family, port uint16) string {
	return "http://" + netip.AddrPortFrom(s.Addr(f), port).String()
}

// nodeEndpoint returns the URL for the nodes.
func (s *Store) nodeEndpoint() string {
	if s.proxy != nil {
		return s.endpoint(cidr.V4, proxyPort)
	}
	return s.Endpoint()
}

// Start starts etcd, with its earlier data, and waits until it serves.
func (s *Store) Start(ctx context.Context) error { return s.start(ctx, false) }

// start starts etcd. With alone, the server becomes the only member of its cluster.
func (s *Store) start(ctx context.Context, alone bool) error {
	if s.proc != nil {
		return errors.New("start the store: it runs already")
	}
	args := []string{s.lab.path("store"), strconv.FormatBool(alone)}
	for _, f := range s.lab.families() {
		args = append(args, s.endpoint(f, storePort))
	}
	cmd := childCommand(childStore, args...)
	ready, told, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the store: %w", err)
	}
	defer ready.Close()
	defer context.AfterFunc(ctx, func() { _ = ready.Close() })()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = told, &log
	s.proc, err = s.space.Start(cmd)
	_ = told.Close() // the child has its own copy
	if err != nil {
		return fmt.Errorf("start the store: %w", err)
	}
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		err = errors.Join(err, ctx.Err(), s.Kill())
		return fmt.Errorf("start the store: it did not get ready: %w; its log:\n%s", err, log.String())
	}
	s.client, err = s.newClient()
	return err
}

func (s *Store) newClient() (*clientv3.Client, error) {
	who := ""
	if s.users {
		who = rootUser
	}
	client, err := clientv3.New(clientv3.Config{
		Username: who, Password: who,
		Endpoints: []string{s.Endpoint()},
		Logger:    zap.NewNop(), // the caller gets the error
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return s.Dial(ctx, "tcp", addr)
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("make a client of the store: %w", err)
	}
	return client, nil
}

// Client returns a client that dials from the store's own host, so that it
// works whatever happens to the underlay. It is valid until the store ends.
func (s *Store) Client() *clientv3.Client { return s.client }

// Stop ends etcd in order; the data stays.
func (s *Store) Stop(ctx context.Context) error {
	if s.proc == nil {
		return nil
	}
	if err := errors.Join(s.Resume(), s.proc.Signal(syscall.SIGTERM)); err != nil {
		return fmt.Errorf("stop the store: %w", err)
	}
	if _, err := s.proc.Wait(ctx); err != nil {
		return fmt.Errorf("stop the store: %w", err)
	}
	return s.ended()
}

// Kill ends etcd at once; the data stays.
func (s *Store) Kill() error {
	if s.proc == nil {
		return nil
	}
	if err := s.proc.Kill(); err != nil {
		return fmt.Errorf("kill the store: %w", err)
	}
	return s.ended()
}

func (s *Store) ended() error {
	s.proc = nil
	return s.closeClient()
}

func (s *Store) closeClient() error {
	if s.client == nil {
		return nil
	}
	err := s.client.Close()
	s.client = nil
	if errors.Is(err, context.Canceled) {
		return nil // Close returns this when all is well
	}
	return err
}

// Pause freezes etcd: connections stay, no request is answered.
func (s *Store) Pause() error {
	if s.proc == nil {
		return errors.New("pause the store: it does not run")
	}
	return s.proc.Pause()
}

// Resume undoes Pause.
func (s *Store) Resume() error {
	if s.proc == nil {
		return errors.New("resume the store: it does not run")
	}
	return s.proc.Resume()
}

// Wipe replaces the store with an empty one, as if its disk had been lost.
func (s *Store) Wipe(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.lab.path("store")); err != nil {
		return fmt.Errorf("wipe the store: %w", err)
	}
	s.users = false
	return s.Start(ctx)
}

// Backup keeps a copy of etcd's data for Restore. Etcd is down in the meantime.
func (s *Store) Backup(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if err := s.copyData("store", "backup"); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	return s.Start(ctx)
}

// Restore puts etcd back to the last backup, and continues with another history:
// that many further changes of a key that does not concern flannel.
func (s *Store) Restore(ctx context.Context, further int) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.copyData("backup", "store"); err != nil {
		return fmt.Errorf("restore the store: %w", err)
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	for range further {
		if err := s.PutRaw(ctx, "/elsewhere", "changed"); err != nil {
			return err
		}
	}
	return nil
}

// copyData replaces one folder of etcd's data with a copy of another.
func (s *Store) copyData(from, to string) error {
	if err := os.RemoveAll(s.lab.path(to)); err != nil {
		return err
	}
	return os.CopyFS(s.lab.path(to), os.DirFS(s.lab.path(from)))
}

// CutFrom cuts a node off from the store, and from nothing else: packets
// between them vanish, in both directions, as in a network that fails. The
// node's own tables stay as they are.
func (s *Store) CutFrom(n *Node) error { return s.eachCut(n, s.nl.RuleAdd) }

// RestoreTo undoes CutFrom.
func (s *Store) RestoreTo(n *Node) error { return s.eachCut(n, s.nl.RuleDel) }

func (s *Store) eachCut(n *Node, do func(*netlink.Rule) error) error {
	for _, f := range s.lab.families() {
		host := n.Underlay(f).Addr()
		from, to := netlink.NewRule(), netlink.NewRule()
		from.Src = ipNet(netip.PrefixFrom(host, host.BitLen()))
		to.Dst = from.Src
		for _, r := range []*netlink.Rule{from, to} {
			r.Family = nlFamily(f)
			r.Type = unix.RTN_BLACKHOLE
			r.Priority = cutPriority
			if err := do(r); err != nil {
				return fmt.Errorf("store: cut off node %s by rule %s: %w", n.Name, r, err)
			}
		}
	}
	return nil
}

// serveStore is the etcd process: it reports on stdout when it is ready.
func serveStore(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := embedded.Start(ctx,
		embedded.Options{Dir: args[0], Alone: args[1] == "true", ListenClient: args[2:], UnsafeNoSync: true})
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("\n"); err != nil {
		return fmt.Errorf("report that the store is ready: %w", err)
	}
	<-ctx.Done()
	return server.Close()
}
