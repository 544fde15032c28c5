package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/internal/daemonflags"
)

func TestEnvironment(t *testing.T) {
	for name, c := range map[string]environment{
		"dashes become underscores": {
			env:  map[string]string{"FLANNELD_ETCD_ENDPOINTS": "http://e:1", "FLANNELD_PUBLIC_IP": "1.2.3.4"},
			want: map[string]string{"etcd-endpoints": "http://e:1", "public-ip": "1.2.3.4"},
		},
		"underscores stay": {
			env:  map[string]string{"FLANNELD_LOG_BACKTRACE_AT": "main.go:7"},
			want: map[string]string{"log_backtrace_at": "main.go:7"},
		},
		"the command line wins": {
			args: "--iface=eth0 --healthz-port=0",
			env:  map[string]string{"FLANNELD_IFACE": "eth1", "FLANNELD_HEALTHZ_PORT": "8080"},
			want: map[string]string{"iface": "eth0"},
		},
		"empty is unset": {
			env: map[string]string{"FLANNELD_ETCD_PREFIX": "", "FLANNELD_STATE_FILE": ""},
		},
		"one value for a repeatable flag": {
			env:  map[string]string{"FLANNELD_IFACE": "eth0,eth1"},
			want: map[string]string{"iface": "eth0,eth1"},
		},
		"no other name": {
			env: map[string]string{"FLANNELD_etcd_prefix": "/x", "ETCD_PREFIX": "/x", "FLANNELD_NONSENSE": "x"},
		},
		"ours too": {
			env: map[string]string{"FLANNELD_EMBED_ETCD": "true", "FLANNELD_SUBNET_LEASE_TTL": "1h",
				"FLANNELD_ON_LEASE_LOST": "exit"},
			want: map[string]string{"embed-etcd": "/var/lib/flannel/etcd", "subnet-lease-ttl": "1h0m0s",
				"on-lease-lost": "exit"},
		},
		// Package flag turns a number that does not parse into 0, or into the
		// largest one: the default must come back.
		"a value that does not parse is skipped": {
			args: "--v=2",
			env: map[string]string{
				"FLANNELD_SUBNET_LEASE_RENEW_MARGIN": "hour", "FLANNELD_IPTABLES_RESYNC": "99999999999999999999",
				"FLANNELD_SUBNET_LEASE_TTL": "soon", "FLANNELD_SET_NODE_NETWORK_UNAVAILABLE": "perhaps",
				"FLANNELD_ON_LEASE_LOST": "panic", "FLANNELD_LOG_BACKTRACE_AT": "x", "FLANNELD_PUBLIC_IP": "1.2.3.4",
			},
			want: map[string]string{"v": "2", "public-ip": "1.2.3.4"},
			complaints: []string{
				`environment variable FLANNELD_IPTABLES_RESYNC is ignored: invalid value "99999999999999999999": value out of ` +
					`range`,
				`environment variable FLANNELD_LOG_BACKTRACE_AT is ignored: invalid value "x": syntax error: expect file.go:234`,
				`environment variable FLANNELD_ON_LEASE_LOST is ignored: invalid value "panic": want reacquire or exit`,
				`environment variable FLANNELD_SET_NODE_NETWORK_UNAVAILABLE is ignored: invalid value "perhaps": parse error`,
				`environment variable FLANNELD_SUBNET_LEASE_RENEW_MARGIN is ignored: invalid value "hour": parse error`,
				`environment variable FLANNELD_SUBNET_LEASE_TTL is ignored: invalid value "soon": parse error`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// environment is a command line with variables, and the flags that result.
type environment struct {
	args       string
	env        map[string]string
	want       map[string]string // values that differ from the defaults
	complaints []string
}

func (c environment) check(t *testing.T) {
	_, fs, err := parse(strings.Fields(c.args)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // klog keeps these for the process
		_ = fs.Set("v", "0")
		_ = fs.Set("log_backtrace_at", "")
	})
	var complaints []string
	for _, err := range daemonflags.FromEnv(fs, func(name string) string { return c.env[name] }) {
		complaints = append(complaints, err.Error())
	}
	if diff := cmp.Diff(c.complaints, complaints); diff != "" {
		t.Error(diff)
	}
	var got map[string]string
	fs.VisitAll(func(f *flag.Flag) {
		if v := f.Value.String(); v != f.DefValue {
			if got == nil {
				got = map[string]string{}
			}
			got[f.Name] = v
		}
	})
	if diff := cmp.Diff(c.want, got); diff != "" {
		t.Error(diff)
	}
}
