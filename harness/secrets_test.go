package harness_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/harness"
)

// toolCommands are the commands of flannelctl that show a daemon or a host. Their exit
// status is 1 on a host with trouble.
var toolCommands = []string{
	"status", "status -o json", "peers", "peers -o json", "diff -o json", "trace 10.5.0.1 10.5.255.254",
	"trace 10.5.0.1 10.5.255.254 -o json",
}

// pages are the pages of a daemon's health listener that show its node.
var pages = []string{"/metrics", control.StatusPage, control.PeersPage, control.DiffPage, control.StatePage,
	control.EventsPage}

// expectUnsaid searches for secrets in all that the daemons publish, answer, log and write,
// except the files that keep secrets, and in what flannelctl prints about them.
func expectUnsaid(ctx context.Context, lab *harness.Lab, secrets ...[]byte) {
	GinkgoHelper()
	records, err := lab.Store.ListLeases(ctx)
	Expect(err).NotTo(HaveOccurred())
	said := map[string]string{"the records": fmt.Sprintf("%+v", records)}
	tool, err := harness.BuildTool(ctx)
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	for _, n := range lab.Nodes {
		said["the log of "+n.Name] = n.Log()
		text, err := os.ReadFile(n.SubnetFile())
		Expect(err).NotTo(HaveOccurred())
		said[n.SubnetFile()] = string(text)
		for _, page := range pages {
			Eventually(func(g Gomega) { // a busy node has no answer
				status, body, err := n.Get(ctx, page)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status).To(Equal(http.StatusOK), page)
				said[page+" of "+n.Name] = body
			}).WithContext(ctx).Should(Succeed())
		}
		files := " --subnet-file=" + n.SubnetFile()
		for _, c := range toolCommands {
			out, err := n.Shell(ctx, tool+" "+c+files+" 2>&1 || [ $? = 1 ]")
			Expect(err).NotTo(HaveOccurred())
			said["flannelctl "+c+" on "+n.Name] = out
		}
		page := filepath.Join(folder, n.Name+".html")
		said["flannelctl report on "+n.Name], err = n.Shell(ctx,
			tool+" report"+files+" -f "+page+" || [ $? = 1 ]; cat "+page)
		Expect(err).NotTo(HaveOccurred())
		archive := filepath.Join(folder, n.Name+".tar.gz")
		files += " --state-file=" + n.StateFile() + " -f " + archive
		said["flannelctl dump on "+n.Name], err = n.Shell(ctx, tool+" dump"+files+" && tar -xzOf "+archive)
		Expect(err).NotTo(HaveOccurred())
	}
	for where, text := range said {
		Expect(text).NotTo(BeEmpty(), where)
		for _, secret := range secrets {
			Expect(text).NotTo(Or(ContainSubstring(string(secret)), ContainSubstring(hex.EncodeToString(secret)),
				ContainSubstring(base64.StdEncoding.EncodeToString(secret))), where)
		}
	}
}
