package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// placings are the ways in which a credential gets into the daemon, on purpose
// and by mistake.
var placings = []struct {
	args func(secret string) []string
	env  func(secret string) map[string]string
}{
	{args: func(s string) []string { return []string{"--etcd-password=" + s} }},
	{args: func(s string) []string { return []string{"--etcd-password", s} }},
	{args: func(s string) []string { return []string{"---etcd-password=" + s} }},
	{args: func(s string) []string { return []string{"--etcd-pasword=" + s} }},
	{args: func(s string) []string { return []string{"--healthz-port=8081 --etcd-password=" + s} }},
	{args: func(s string) []string { return []string{"--kube-subnet-mgr=FLANNELD_ETCD_PASSWORD=" + s} }},
	{args: func(s string) []string { return []string{"--v=https://root:" + s + "@a:1"} }},
	{args: func(s string) []string { return []string{"--etcd-endpoints=https://root:" + s + "@a:1"} }},
	{args: func(s string) []string { return []string{"--etcd-endpoints=root:" + s + "@a:1"} }},
	{args: func(s string) []string { return []string{"--etcd-endpoints=://" + s + "@a:1"} }},
	{args: func(s string) []string {
		return []string{"--etcd-endpoints=https://a:1,https://root:" + s + "@b:2,https://c:3"}
	}},
	{args: func(s string) []string { return []string{"--kube-api-url=https://" + s + "@k8s:6443"} }},
	{args: func(s string) []string { return []string{"--kube-api-url=https://k8s:6443?token=" + s} }},
	{env: func(s string) map[string]string { return map[string]string{"FLANNELD_ETCD_PASSWORD": s} }},
	{env: func(s string) map[string]string {
		return map[string]string{"FLANNELD_ETCD_ENDPOINTS": "https://root:" + s + "@a:1,https://b:2"}
	}},
	{env: func(s string) map[string]string {
		return map[string]string{"FLANNELD_HEALTHZ_PORT": "http://root:" + s + "@a:1"}
	}},
	{env: func(s string) map[string]string { return map[string]string{"FLANNELD_V": "password=" + s} }},
}

// told returns all output of the daemon about its flags, and about endpoints
// that hold a credential.
func told(args []string, env map[string]string) string {
	o := options{}
	fs := o.define()
	if err := fs.Parse(args); err != nil {
		return parseError(err)
	}
	var b strings.Builder
	for _, complaint := range daemonflags.FromEnv(fs, func(name string) string { return env[name] }) {
		fmt.Fprintln(&b, complaint)
	}
	fmt.Fprintln(&b, describe(fs))
	if _, err := o.embeddedListen("unix:///etcd/client.sock"); err != nil {
		fmt.Fprintln(&b, err)
	}
	if strings.Contains(o.etcd.Endpoints, "@") {
		_, err := etcd.Open(context.Background(), o.storeOptions(o.etcd.URLs()))
		fmt.Fprintln(&b, errors.Unwrap(err), err)
	}
	return b.String()
}

// The output depends on a credential only by whether it holds an @, and a ? or
// #: so it shows no part of one.
func FuzzOutputTellsNoSecret(f *testing.F) {
	for way := range placings {
		for _, secret := range []string{
			"s3cret", "s3c,ret", "s3c@ret", "s3/c?r#et", "s3c://ret", "a,https://b", "1234,https://x", "=s3cret",
			"s3 c\"ret", "%zz", "s3c\x00\xffret",
		} {
			f.Add(uint8(way), secret)
		}
	}
	f.Fuzz(func(t *testing.T, way uint8, secret string) {
		if len(secret) < 4 {
			t.Skip("too short to tell from other words")
		}
		p := placings[int(way)%len(placings)]
		with := func(secret string) string {
			var args []string
			var env map[string]string
			if p.args != nil {
				args = p.args(secret)
			}
			if p.env != nil {
				env = p.env(secret)
			}
			return told(args, env)
		}
		another := "another credential"
		if strings.Contains(secret, "@") {
			another += "@"
		}
		if strings.ContainsAny(secret, "?#") {
			another += "?"
		}
		if have, want := with(secret), with(another); have != want {
			t.Errorf("%q changes the output\n%s\nto\n%s", secret, want, have)
		}
	})
}
