package main

import (
	"strings"
	"testing"
)

// The writers of the network config may run commands on this host if they had to show a credential, if the config is
// a file, or if the administrator of the host says so.
func TestTrustsConfig(t *testing.T) {
	for args, want := range map[string]bool{
		"":                            false,
		"--etcd-endpoints=http://a:1": false,
		"--etcd-endpoints=http://a:1 --etcd-certfile=c --etcd-keyfile=k --etcd-cafile=a": false, // they are not used
		"--etcd-endpoints=https://a:1":                                               false,
		"--etcd-endpoints=https://a:1 --etcd-cafile=a":                               false,
		"--etcd-endpoints=https://a:1 --etcd-certfile=c --etcd-keyfile=k":            true,
		"--etcd-endpoints=https://a:1,http://b:1 --etcd-certfile=c --etcd-keyfile=k": false,
		"--etcd-endpoints=http://a:1 --etcd-username=u --etcd-password=p":            true,
		"--etcd-endpoints=http://a:1 --etcd-username=u":                              false,
		"--etcd-endpoints=unix:///etcd/client.sock":                                  true,
		"--etcd-endpoints=unixs:///etcd/client.sock":                                 false,
		"--etcd-endpoints=unix:///etcd/client.sock,http://a:1":                       false,
		"--etcd-endpoints=http://a:1 --allow-extension":                              true,
		"--embed-etcd=/data": true,
		"--embed-etcd=/data --etcd-endpoints=https://a:1 --etcd-certfile=c --etcd-keyfile=k --etcd-cafile=a": true,
		"--kube-subnet-mgr":              true,
		"--remote=a:1":                   false,
		"--remote=a:1 --remote-cafile=a": false,
		"--remote=a:1 --remote-certfile=c --remote-keyfile=k":                   false, // any server may answer
		"--remote=a:1 --remote-certfile=c --remote-keyfile=k --remote-cafile=a": true,
		"--remote=a:1 --etcd-username=u --etcd-password=p":                      false,
		"--remote=a:1 --allow-extension":                                        true,
	} {
		o, _, err := parse(strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.nodeOptions().TrustConfig; got != want {
			t.Errorf("%q: %v, want %v", args, got, want)
		}
	}
}
