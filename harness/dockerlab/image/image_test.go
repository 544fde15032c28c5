// Package image_test holds the specs of the image that a Docker engine builds from deploy/Dockerfile.
// make test-image runs them.
package image_test

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness/dockerlab"
	"github.com/flanneld/flannel/internal/suite"
)

// basesEnv names the folder of hack/docker-bases, which engines see as basesDir. builderEnv is "classic" for the
// builder that Docker had before BuildKit.
const (
	basesEnv   = "FLANNEL_LAB_DOCKER_BASES"
	basesDir   = "/opt/bases"
	builderEnv = "FLANNEL_LAB_DOCKER_BUILDER"
)

// owner is the user that all files of the image belong to.
const owner = 65532

// library matches the paths of libraries.
var library = regexp.MustCompile(`^(usr/)?lib(64)?/.*\.so(\.[0-9.]+)?$`)

func TestMain(m *testing.M) { dockerlab.Main(m) }

func TestImage(t *testing.T) {
	if os.Getenv(dockerlab.ProgramsEnv) == "" || os.Getenv(basesEnv) == "" {
		t.Skip("no Docker engine with base images: make test-image makes them from Debian's packages and runs this")
	}
	if err := dockerlab.Missing(); err != nil {
		t.Skip(err.Error())
	}
	suite.Run(t, "image")
}

// limit is the time limit of a spec, and of the build before the first one; a correct one never reaches it.
const limit = SpecTimeout(25 * time.Minute)

// options say where the programs are.
func options(tool string) dockerlab.Options {
	return dockerlab.Options{Programs: os.Getenv(dockerlab.ProgramsEnv), Tool: tool, Host: repo + "deploy/host"}
}

var _ = Describe("The image of deploy/Dockerfile", Ordered, ContinueOnFailure, func() {
	var (
		w       *workshop
		entries map[string]entry
	)

	BeforeAll(func(ctx context.Context) {
		var err error
		w, err = newWorkshop(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(w.Close()).To(Succeed()) })
		builder := os.Getenv(builderEnv)
		Expect(builder).To(BeElementOf("", "classic"))
		messages, err := w.engine().Build(ctx, builder == "classic",
			"--file="+sharedDir+"/context/"+dockerfile, "--tag="+tag, sharedDir+"/context")
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Println(messages)
		entries, err = w.save(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(25*time.Minute))

	It("holds flannel's programs and the firewall's, and no others", func(ctx context.Context) {
		var programs, others []string
		for path, e := range entries {
			if e.Typeflag != tar.TypeReg || library.MatchString(path) {
				continue
			}
			if e.Mode&0o111 != 0 {
				programs = append(programs, path)
			} else {
				others = append(others, path)
			}
		}
		Expect(programs).To(ConsistOf("opt/bin/flanneld", "opt/bin/flannel-cni",
			"usr/sbin/nft", "usr/sbin/xtables-nft-multi", "usr/sbin/xtables-legacy-multi"))
		Expect(others).To(HaveEach(Or(Equal("etc/ssl/certs/ca-certificates.crt"), HavePrefix("var/lib/dpkg/status.d/"))))
		_, err := w.run(ctx, "sh", "-c", "true")
		Expect(err).To(MatchError(ContainSubstring("executable file not found")))
	}, limit)

	It("belongs to a user that no process has", func() {
		var others, writable []string
		for path, e := range entries {
			if e.Uid != owner || e.Gid != owner {
				others = append(others, path)
			}
			if e.Mode&0o022 != 0 && e.Typeflag != tar.TypeSymlink {
				writable = append(writable, path)
			}
		}
		Expect(others).To(BeEmpty())
		Expect(writable).To(BeEmpty())
	})

	It("takes up to 60 MB", func(ctx context.Context) {
		text, err := w.engine().Docker(ctx, "image", "inspect", "--format={{.Size}}", tag)
		Expect(err).NotTo(HaveOccurred())
		size, err := strconv.Atoi(text)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Printf("%.1f MB\n", float64(size)/1e6)
		Expect(size).To(BeNumerically("<=", 60_000_000))
	}, limit)

	It("runs its programs", func(ctx context.Context) {
		for command, want := range map[string]string{
			"flanneld --version":         "v",
			"flannelctl --help":          "flannelctl",
			"nft --version":              "nftables v",
			"iptables --version":         "(nf_tables)",
			"iptables-nft --version":     "(nf_tables)",
			"ip6tables-nft --version":    "(nf_tables)",
			"iptables-legacy --version":  "(legacy)",
			"ip6tables-legacy --version": "(legacy)",
		} {
			words := strings.Fields(command)
			Expect(w.run(ctx, words[0], words[1:]...)).To(ContainSubstring(want), command)
		}
		Expect(w.engine().Docker(ctx, "run", "--rm", "--network=none", tag, "--version")).To(HavePrefix("v"))
	}, limit)

	It("records its Debian packages", func() {
		var records []string
		for path := range entries {
			if name, found := strings.CutPrefix(path, "var/lib/dpkg/status.d/"); found {
				records = append(records, name)
			}
		}
		Expect(records).To(ContainElements("nftables", "iptables", "libc6", "libnftnl11", "libxtables12"))
	})

	It("holds the programs that the same sources give outside", func(ctx context.Context) {
		dir := filepath.Join(w.dir, "outside")
		Expect(w.buildOutside(ctx, dir)).To(Succeed())
		for _, name := range []string{"flanneld", "flannel-cni"} {
			want, err := sumOf(filepath.Join(dir, "opt/bin", name))
			Expect(err).NotTo(HaveOccurred())
			Expect(entries["opt/bin/"+name].sum).To(Equal(want), fmt.Sprintf("%s: compare the output of go version -m", name))
		}
	}, limit)

	It("is the daemon of a node", func(ctx context.Context) {
		Expect(w.Close()).To(Succeed()) // two sites have the same places
		runOnNode(ctx, w.dir)
	}, SpecTimeout(3*time.Minute))
})
