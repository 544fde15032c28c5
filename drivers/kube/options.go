package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
)

// Options select a cluster and our node in it.
type Options struct {
	// URL is the address of the API server, Kubeconfig a file. With neither, the
	// store uses the cluster in which the process runs as a pod.
	URL, Kubeconfig string
	// Node is the name of our node object; without one, the node of the pod.
	Node                  string
	PodNamespace, PodName string
	AnnotationPrefix      string
	ConfigFile            string        // with the network config
	SetNetworkUnavailable bool          // publish the condition of that name
	Timeout               time.Duration // of each request; default 10 s
	Log                   *slog.Logger  // default: discarded
	UserAgent             string

	steady      time.Duration // default: the constant of that name
	configEvery time.Duration // how often the config file is read; default 5 s
}

// setup holds the values derived from the options.
type setup struct {
	names   nodelease.Names
	doc     lease.Document
	network config.Network
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.configEvery = cmp.Or(o.configEvery, 5*time.Second)
	o.steady = cmp.Or(o.steady, steady)
	o.AnnotationPrefix = cmp.Or(o.AnnotationPrefix, nodelease.DefaultPrefix)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// errNoNode says that the options do not name our node.
var errNoNode = errors.New("which node is this? set NODE_NAME, or POD_NAME and POD_NAMESPACE, in the environment")

// setup checks the options without a request, except for the node.
func (o Options) setup() (setup, error) {
	var s setup
	var err error
	s.names, err = nodelease.ParsePrefix(o.AnnotationPrefix)
	if err != nil {
		return s, fmt.Errorf("--kube-annotation-prefix: %w", err)
	}
	data, network, err := readConfig(o.ConfigFile)
	if err != nil {
		return s, fmt.Errorf("--net-config-path: %w", err)
	}
	s.network, s.doc = network, lease.Document{Data: data, Revision: 1}
	return s, nil
}

// prepare checks the options and returns the setup and the client for them, without a request.
func (o Options) prepare() (setup, *server, error) {
	set, err := o.setup()
	if err != nil {
		return set, nil, err
	}
	server, err := newServer(o.client, set.names)
	return set, server, err
}

// client returns the client library's configuration.
func (o Options) client() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags(o.URL, o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: no way to the API server by --kube-api-url and --kubeconfig-file, "+
			"nor as a pod: %w", err)
	}
	cfg.UserAgent = o.UserAgent
	return cfg, takeUser(cfg)
}

// takeUser moves a user and password out of the URL, which the client library
// shows in errors and logs.
func takeUser(cfg *rest.Config) error {
	if !strings.Contains(cfg.Host, "@") {
		return nil
	}
	u, err := url.Parse(cfg.Host)
	if err != nil || u.User == nil || u.Host == "" {
		return errors.New("the URL of the API server holds an @, and no user before it that could be used")
	}
	cfg.Username = u.User.Username()
	cfg.Password, _ = u.User.Password()
	u.User = nil
	cfg.Host = u.String()
	return nil
}
