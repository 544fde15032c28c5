package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flanneld/flannel/internal/noredirect"
)

// Options name a cluster as kubectl's flags do.
type Options struct {
	Kubeconfig string // a file; empty: $KUBECONFIG, then ~/.kube/config, then the cluster of this pod
	Context    string // in the kubeconfig; empty: the current one
	Namespace  string // of flanneld's pods
	UserAgent  string
}

// Cluster is an API server.
type Cluster struct {
	namespace string
	config    *rest.Config
	base      *url.URL
	http      *http.Client
}

// askLimit is the longest time that the API server may take for a list of pods.
const askLimit = 10 * time.Second

// maxList is more than the list of 5,000 pods has. Another program may answer in place of an API server.
const maxList = 256 << 20

// selector selects flanneld's pods by the label of the manifest, the chart and upstream's manifest.
const selector = "app=flannel"

// Open reads the kubeconfig. It asks nothing.
func Open(o Options) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = o.UserAgent
	c := &Cluster{namespace: o.Namespace, config: config}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err == nil {
		c.http, err = rest.HTTPClientFor(config)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c.base, c.http = base, noredirect.Client(c.http)
	return c, nil
}

// Pod is a pod of flanneld.
type Pod struct {
	Name string
	Node string // the name of its node
	Port uint16 // of its health listener
}

// list is the part of a list of pods that matters.
type list struct {
	Items []struct {
		Metadata struct {
			Name              string     `json:"name"`
			DeletionTimestamp *time.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			NodeName   string      `json:"nodeName"`
			Containers []container `json:"containers"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	} `json:"items"`
}

type container struct {
	Command []string `json:"command"`
	Args    []string `json:"args"`
}

// Pods returns flanneld's running pods, by the names of their nodes. With the name of a node it
// returns that node's.
func (c *Cluster) Pods(ctx context.Context, node string) ([]Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	query := url.Values{"labelSelector": {selector}}
	if node != "" {
		query.Set("fieldSelector", "spec.nodeName="+node)
	}
	u := c.base.JoinPath("api/v1/namespaces", c.namespace, "pods")
	u.RawQuery = query.Encode()
	var all list
	if err := c.get(ctx, u, &all); err != nil {
		return nil, fmt.Errorf("list flanneld's pods in namespace %s at %s: %w", c.namespace, c.base, err)
	}
	return all.running(), nil
}

// running returns the pods that run, by node and name.
func (l list) running() []Pod {
	var found []Pod
	for _, i := range l.Items {
		if i.Status.Phase != "Running" || i.Metadata.DeletionTimestamp != nil {
			continue
		}
		found = append(found, Pod{Name: i.Metadata.Name, Node: i.Spec.NodeName, Port: portOf(i.Spec.Containers)})
	}
	slices.SortFunc(found, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name)) })
	return found
}

// On returns the running pod of flanneld on a node.
func (c *Cluster) On(ctx context.Context, node string) (Pod, error) {
	found, err := c.Pods(ctx, node)
	if err != nil {
		return Pod{}, err
	}
	if len(found) == 0 {
		return Pod{}, fmt.Errorf("no pod of flanneld with the label %s runs on node %q in namespace %s: kubectl get pods "+
			"-A -o wide -l %s", selector, node, c.namespace, selector)
	}
	return found[0], nil
}

func (c *Cluster) get(ctx context.Context, u *url.URL, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusOf(resp)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(into)
}

// statusOf returns the API server's message about a refused request.
func statusOf(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 10_000))
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		return errors.New(resp.Status)
	}
	return errors.New(status.Message)
}

// defaultPort is the port of the manifest's health listener.
const defaultPort = 8081

// portOf returns the port that flanneld's flag --healthz-port names.
func portOf(containers []container) uint16 {
	for _, c := range containers {
		for _, arg := range slices.Concat(c.Command, c.Args) {
			text, is := strings.CutPrefix(strings.TrimLeft(arg, "-"), "healthz-port=")
			port, err := strconv.ParseUint(text, 10, 16)
			if is && err == nil && port > 0 {
				return uint16(port)
			}
		}
	}
	return defaultPort
}
