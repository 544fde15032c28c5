package host_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/internal/pace"
)

// vagrant stands in for Vagrant: it prints what a Vagrantfile configures.
const vagrant = `
require "json"
class Note
  def initialize(path) = @path = path
  def method_missing(name, *args, **options, &block)
    path = [@path, name.to_s].join(" ").strip
    block&.call(Note.new([path, *args.grep(String)].join(" ")))
    (args + options.to_a).each { |a| puts "#{path}: #{a.to_json}" } unless block
    Note.new(path)
  end
  def respond_to_missing?(*) = true
end
module Vagrant
  def self.configure(_) = yield(Note.new(""))
end
load ARGV.first
`

// machineOne has the words of the Vagrantfile about the first machine.
const machineOne = `vm define n1 vm hostname=: "n1"
vm define n1 vm network: "private_network"
vm define n1 vm network: ["ip","192.168.56.11"]
vm define n1 vm provision: "file"
vm define n1 vm provision: ["source","bin/flannel.deb"]
vm define n1 vm provision: ["destination","/tmp/flannel.deb"]
vm define n1 vm provision: "file"
vm define n1 vm provision: ["source","bin/etcd.pem"]
vm define n1 vm provision: ["destination","/tmp/etcd.pem"]
vm define n1 vm provision: "file"
vm define n1 vm provision: ["source","bin/etcd-key.pem"]
vm define n1 vm provision: ["destination","/tmp/etcd-key.pem"]
vm define n1 vm provision: "shell"
vm define n1 vm provision: ["path","deploy/host/vagrant.sh"]
vm define n1 vm provision: ["env",{"SETTINGS":"FLANNELD_IFACE=192.168.56.11 ` +
	`FLANNELD_ETCD_ENDPOINTS=https://192.168.56.11:2379 FLANNELD_ETCD_CERTFILE=/etc/flannel/etcd.pem ` +
	`FLANNELD_ETCD_KEYFILE=/etc/flannel/etcd-key.pem FLANNELD_ETCD_CAFILE=/etc/flannel/etcd.pem ` +
	`FLANNELD_EMBED_ETCD=true ` +
	`FLANNELD_NET_CONFIG_PATH=/etc/flannel/net-conf.json"}]
`

// The Vagrantfile builds the package, copies it, and has the setup install it. The later machines use the
// etcd of the first one.
func TestVagrantfile(t *testing.T) {
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("needs the program ruby: apt-get install ruby")
	}
	out, err := exec.Command("ruby", "-W1", "-e", vagrant, "../../Vagrantfile").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		about := "all"
		if words[1] == "define" {
			about = words[2]
		}
		said[about] += line
	}
	if d := cmp.Diff(machineOne, said["n1"]); d != "" {
		t.Errorf("n1 (-want +got):\n%s", d)
	}
	for name, ip := range map[string]string{"n2": "192.168.56.12", "n3": "192.168.56.13"} {
		want := strings.ReplaceAll(machineOne, "n1", name)
		want = strings.ReplaceAll(want, "FLANNELD_IFACE=192.168.56.11", "FLANNELD_IFACE="+ip)
		want = strings.ReplaceAll(want, `"ip","192.168.56.11"`, `"ip","`+ip+`"`)
		later, _, _ := strings.Cut(want, " FLANNELD_EMBED_ETCD")
		if d := cmp.Diff(later+"\"}]\n", said[name]); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	const build = "trigger before run=: {\"inline\":\"make bin/flannel.deb bin/etcd.pem ETCD_IP=192.168.56.11\"}\n"
	if !strings.Contains(said["all"], build) {
		t.Errorf("the Vagrantfile says %q, want %q", said["all"], build)
	}
	if !strings.Contains(read(t, "../../Makefile"), "\nbin/flannel.deb:") {
		t.Error("the Makefile does not build bin/flannel.deb")
	}
}

// makeCertificate makes the etcd's certificate for an address as the Vagrantfile does.
func makeCertificate(t *testing.T, dir, ip string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs the program openssl: apt-get install openssl")
	}
	out, err := exec.Command("make", "-s", "-C", "../..", dir+"/etcd.pem", "ETCD_IP="+ip).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// The certificate of the etcd is one of its address, that of a client, and the authority of both.
func TestVagrantCertificate(t *testing.T) {
	dir := t.TempDir()
	makeCertificate(t, dir, "192.168.56.11")
	pair, err := tls.LoadX509KeyPair(dir+"/etcd.pem", dir+"/etcd-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{
			DNSName: "192.168.56.11", Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			t.Errorf("usage %v: %v", usage, err)
		}
	}
}

// The setup of a machine names only flags of flanneld, and has no unit of its own.
func TestVagrantUsesTheUnit(t *testing.T) {
	flags := read(t, "../../docs/operations.md")
	for _, name := range regexp.MustCompile(`FLANNELD_(\w+)=`).FindAllStringSubmatch(read(t, "../../Vagrantfile"), -1) {
		flag := "`--" + strings.ToLower(strings.ReplaceAll(name[1], "_", "-"))
		if !strings.Contains(flags, flag) {
			t.Errorf("the Vagrantfile sets %s, and operations.md has no flag %s", name[0], flag)
		}
	}
	for _, text := range []string{"[Unit]", "ExecStart=", "/flanneld "} {
		if strings.Contains(read(t, "vagrant.sh")+read(t, "../../Vagrantfile"), text) {
			t.Errorf("Vagrant's files have %q, which is for the packaged unit", text)
		}
	}
}

// shells run scripts of plain hosts.
var shells = [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}}

func TestVagrantSetupIsChecked(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell[0], func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skipf("needs the program %s: apt-get install %s", shell[0], shell[0])
			}
			if out, err := exec.Command(shell[0], append(shell[1:], "-n", "vagrant.sh")...).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	t.Run("shellcheck", func(t *testing.T) {
		if _, err := exec.LookPath("shellcheck"); err != nil {
			t.Skip("needs the program shellcheck: apt-get install shellcheck")
		}
		if out, err := exec.Command("shellcheck", "-e", "SC1091", "vagrant.sh").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// A real systemd starts the flanneld of a machine that the setup has made, and the bridge after it.
func TestSystemdVagrant(t *testing.T) {
	if !disposable(t) {
		t.Skip("installs units, so it runs only in the machine of make test-vm")
	}
	g, h := NewWithT(t), start(t)
	write(t, "/", "etc/flannel/flanneld.env", read(t, "../packages/flanneld.env"), 0o600)
	write(t, "/", "etc/flannel/net-conf.json", read(t, "../packages/net-conf.json"), 0o644)
	write(t, "/", "usr/local/bin/apt-get", "#!/bin/sh\n", 0o755) // start has installed the files
	write(t, "/", "usr/local/sbin/setup", read(t, "vagrant.sh"), 0o755)
	if err := os.RemoveAll("/var/lib/flannel"); err != nil { // of another test
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll("/etc/systemd/system/flanneld.service.d") })
	dir, err := os.MkdirTemp("/var/tmp", "etcd") // the host has a /tmp of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	makeCertificate(t, dir, "192.168.64.1")
	h.must("cp", dir+"/etcd.pem", dir+"/etcd-key.pem", "/tmp")
	h.must("env", "PATH=/usr/local/bin:"+os.Getenv("PATH"), "SETTINGS=FLANNELD_IFACE=192.168.64.1 "+
		"FLANNELD_ETCD_ENDPOINTS=https://192.168.64.1:2379 FLANNELD_ETCD_CERTFILE=/etc/flannel/etcd.pem "+
		"FLANNELD_ETCD_KEYFILE=/etc/flannel/etcd-key.pem FLANNELD_ETCD_CAFILE=/etc/flannel/etcd.pem "+
		"FLANNELD_EMBED_ETCD=true "+
		"FLANNELD_NET_CONFIG_PATH=/etc/flannel/net-conf.json", "/usr/local/sbin/setup")

	g.Expect(h.must("systemctl", "is-active", "flanneld")).To(Equal("active"))
	g.Expect(h.must("systemctl", "is-enabled", "flanneld")).To(Equal("enabled"))
	subnet := h.must("sh", "-c", ". /run/flannel/subnet.env; echo $FLANNEL_SUBNET")
	g.Expect(h.must("ip", "address", "show", "cni0")).To(ContainSubstring("inet " + subnet + " "))
	g.Expect(h.must("ip", "link", "show", "cni0")).To(ContainSubstring("mtu 1450"))

	h.must("systemctl", "restart", "flanneld")
	g.Eventually(func() string { return h.must("systemctl", "show", "flanneld", "-p", "StatusText") }).
		WithTimeout(pace.Scale(30 * time.Second)).WithPolling(200 * time.Millisecond).
		Should(HavePrefix("StatusText=ready, subnet 10.5."))
	g.Expect(h.must("ip", "address", "show", "cni0")).To(ContainSubstring("inet " + subnet + " "))
}
