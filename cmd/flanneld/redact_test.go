package main

import (
	"strings"
	"testing"
)

func TestDescribeHidesSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing given": {nil, "all options at their defaults"},
		"a default given": {
			[]string{"--etcd-prefix=/coreos.com/network"}, "all options at their defaults",
		},
		"password": {
			[]string{"--etcd-username=root", "--etcd-password=s3cret"},
			"options: --etcd-password=REDACTED --etcd-username=root",
		},
		"credentials in endpoints": {
			[]string{"--etcd-endpoints=https://root:s3cret@a:1,https://b:2,https://s3cret@c:3"},
			"options: --etcd-endpoints=https://REDACTED@c:3",
		},
		"credentials in malformed endpoints": {
			[]string{"--etcd-endpoints=root:s3cret@a:1,https://root:s3/c@r#e?t@b:2,://s3cret@c"},
			"options: --etcd-endpoints=REDACTED",
		},
		"a comma in the password": {
			[]string{"--etcd-endpoints=https://root:s3c,ret@a:1,https://b:2"},
			"options: --etcd-endpoints=https://REDACTED@a:1,https://b:2",
		},
		"credentials in the API's URL": {
			[]string{"--kube-api-url=https://admin:s3cret@k8s:6443"},
			"options: --kube-api-url=https://REDACTED@k8s:6443",
		},
		"sorted, quoted where needed": {
			[]string{"--state-file=", "--iface=a b", "--iface-regex=^eth\\d", "--ip-masq"},
			`options: --iface="a b" --iface-regex="^eth\\d" --ip-masq=true --state-file=""`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, fs, err := parse(c.args...)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(fs)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if strings.Contains(got, "s3c") {
				t.Error("it shows a credential")
			}
		})
	}
}

// The whole output of the daemon shows no credential.
func TestOutputHidesSecrets(t *testing.T) {
	for _, args := range [][]string{
		{"--etcd-username=root", "--etcd-password=s3cret", "--kube-subnet-mgr"},
		{"--etcd-endpoints=http://root:s3cret@127.0.0.1:1"},
		{"--etcd-endpoints=root:s3cret@127.0.0.1:1"},
		{"--etcd-endpoints=http://root:s3cret/@127.0.0.1:1"},
		{"--etcd-endpoints=http://root:s3cret@127.0.0.1:1", "--embed-etcd=/nonexistent"},
		{"--etcd-endpoints=http://root:s3c,s3cret@127.0.0.1:1"},
		{"--etcd-password=s3cret", "--v=6"},
	} {
		out, status := runToEnd(t, []string{"FLANNELD_ETCD_PASSWORD=s3cret"}, args...)
		if status != statusFailed || strings.Contains(out, "s3c") {
			t.Errorf("%v: status %d, output\n%s", args, status, out)
		}
	}
}
