package lang

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ServerName returns the name of the i-th flannel server, from 0.
func ServerName(i int) string { return "server" + strconv.Itoa(i+1) }

// Servers is a world whose nodes get their leases from flannel servers, which get
// them from the datastore.
type Servers interface {
	Server(name string) (Server, error)
}

// Server is a flannel server.
type Server interface {
	Stop(on bool) // or starts it again
	Cut(on bool)  // from all nodes
	Part(on bool) // from the datastore
	// Slow makes answers and changes take up to that much longer.
	Slow(by time.Duration)
	// LoseAnswers gives each answer a probability of being lost; the request was done.
	LoseAnswers(probability float64)
}

// servering performs one kind of fault on a server. What names the fault.
type servering func(s *Session, what string, srv Server, a *args) error

// serverings returns the kinds of faults on a server.
func serverings() map[string]servering {
	return map[string]servering{
		"stop":    switched(Server.Stop),
		"cut":     switched(Server.Cut),
		"part":    switched(Server.Part),
		"restart": restartServer,
		"slow":    slowServer,
		"lossy":   lossyServer,
	}
}

// faultServer performs
//
//	fault server1 stop|cut|part [heal]   it is down; no node reaches it; it does not reach the datastore
//	fault server1 restart                it ends, and starts at once
//	fault server1 slow by=3s             its answers and changes take up to that much longer
//	fault server1 lossy answers=0.2      answers get lost
func (s *Session) faultServer(name, kind string, a *args) error {
	world, err := able[Servers](s, s.world)
	if err != nil {
		return err
	}
	srv, err := world.Server(name)
	if err != nil {
		return err
	}
	do, known := serverings()[kind]
	if !known {
		return fmt.Errorf("fault %s %s: want one of %s", name, kind, strings.Join(sortedKeys(serverings()), ", "))
	}
	return do(s, "store "+name+" "+kind, srv, a)
}

// switched returns a fault that lasts until the heal.
func switched(do func(Server, bool)) servering {
	return func(s *Session, what string, srv Server, a *args) error {
		on := !a.flag("heal")
		if err := a.done(); err != nil {
			return err
		}
		return setting(s, what, on, func(on bool) error { do(srv, on); return nil })
	}
}

func restartServer(s *Session, what string, srv Server, a *args) error {
	if err := a.done(); err != nil {
		return err
	}
	srv.Stop(true)
	srv.Stop(false)
	delete(s.undo, strings.Replace(what, "restart", "stop", 1))
	return nil
}

func slowServer(s *Session, what string, srv Server, a *args) error {
	var by time.Duration
	a.duration("by", &by)
	if err := a.done(); err != nil {
		return err
	}
	return setting(s, what, by, func(by time.Duration) error { srv.Slow(by); return nil })
}

func lossyServer(s *Session, what string, srv Server, a *args) error {
	var answers float64
	a.fraction("answers", &answers)
	if err := a.done(); err != nil {
		return err
	}
	return setting(s, what, answers, func(p float64) error { srv.LoseAnswers(p); return nil })
}
