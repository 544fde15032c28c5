// Package clients maps the types of backends to the providers' clients.
package clients

import (
	"fmt"
	"maps"
	"slices"

	backends "github.com/flanneld/flannel/core/backend/cloud"
	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/ali"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/aws"
	"github.com/flanneld/flannel/drivers/cloud/gce"
	"github.com/flanneld/flannel/drivers/cloud/tencent"
)

// makers returns the client's constructor for each type of backend.
func makers() map[string]func(api.Options) (cloud.Client, error) {
	return map[string]func(api.Options) (cloud.Client, error){
		backends.GCE: gce.New, backends.AWS: aws.New, backends.Ali: ali.New, backends.Tencent: tencent.New,
	}
}

// Types returns the types of backends that have a client.
func Types() []string { return slices.Sorted(maps.Keys(makers())) }

// New returns the client for a type of backend. It makes no request: what is wrong
// with the instance or the rights is told by the first call.
func New(kind string, o api.Options) (cloud.Client, error) {
	open, ok := makers()[kind]
	if !ok {
		return nil, fmt.Errorf("the backend %q keeps no routes at a cloud provider", kind)
	}
	return open(o)
}

// WithEnvironment adds the credentials of the environment to options without
// (interop 1.3). A key and its secret come from the same place: half a pair in the
// config does not hide the environment's.
func WithEnvironment(kind string, o api.Options, getenv func(string) string) api.Options {
	if kind == backends.GCE {
		if o.CredentialsFile == "" {
			o.CredentialsFile = getenv("GOOGLE_APPLICATION_CREDENTIALS")
		}
		return o
	}
	if o.AccessKeyID != "" && o.AccessKeySecret != "" {
		return o
	}
	id, secret := "ACCESS_KEY_ID", "ACCESS_KEY_SECRET"
	token := ""
	if kind == backends.AWS {
		id = "AWS_ACCESS_KEY_ID"
		secret = "AWS_SECRET_ACCESS_KEY"
		token = getenv("AWS_SECURITY_TOKEN")
		if token == "" {
			token = getenv("AWS_SESSION_TOKEN") // its name in later releases of Amazon's tools
		}
	}
	if getenv(id) != "" && getenv(secret) != "" {
		o.AccessKeyID = getenv(id)
		o.AccessKeySecret = getenv(secret)
		o.SecurityToken = token
	}
	return o
}
