package aws

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// metadataBase is the address of the metadata service on every instance.
const metadataBase = "http://169.254.169.254"

// metadata returns the SDK's reader of the metadata service. It keeps the session
// token that the second version of the service demands.
func metadata(o api.Options) *imds.Client {
	base := metadataBase
	if o.Metadata != "" {
		base = o.Metadata
	}
	return imds.New(imds.Options{Endpoint: base, HTTPClient: api.MetadataHTTP(o), ClientEnableState: imds.ClientEnabled})
}

// credentialsOf returns the configured credentials, or else those of the instance's role.
func credentialsOf(o api.Options, m *imds.Client) aws.CredentialsProvider {
	if o.AccessKeyID != "" && o.AccessKeySecret != "" {
		return credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.AccessKeySecret, o.SecurityToken)
	}
	return aws.NewCredentialsCache(ec2rolecreds.New(func(r *ec2rolecreds.Options) { r.Client = m }))
}

// The forms of names. The region becomes part of the host that gets signed requests.
var (
	regionForm   = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]{1,16}){1,3}-[0-9]{1,2}$`)
	instanceForm = regexp.MustCompile(`^i-[0-9a-f]{1,32}$`)
)

// identify finds out the instance, its network interface and its tables.
func (c *Client) identify(ctx context.Context) (*self, error) {
	region, err := c.metadata.GetRegion(ctx, nil)
	if err != nil {
		return nil, unknown(ctx, "the region", err)
	}
	if !regionForm.MatchString(region.Region) {
		return nil, &api.Fault{Class: cloud.ErrNoIdentity, Doing: asking("the region"), Text: "the answer is no region"}
	}
	instance, err := c.instance(ctx)
	if err != nil {
		return nil, err
	}
	me := &self{region: region.Region, instance: instance}
	me.eni, err = c.networkInterface(ctx, me)
	if err != nil {
		return nil, err
	}
	me.tables = c.configured
	if len(me.tables) == 0 {
		me.tables, err = c.tableOf(ctx, me)
	}
	return me, err
}

// instance reads the instance's id.
func (c *Client) instance(ctx context.Context) (string, error) {
	out, err := c.metadata.GetMetadata(ctx, &imds.GetMetadataInput{Path: "instance-id"})
	if err != nil {
		return "", unknown(ctx, "the instance's id", err)
	}
	defer out.Content.Close()
	data, err := io.ReadAll(io.LimitReader(out.Content, 256))
	if err != nil {
		return "", unknown(ctx, "the instance's id", err)
	}
	id := strings.TrimSpace(string(data))
	if !instanceForm.MatchString(id) {
		return "", &api.Fault{Class: cloud.ErrNoIdentity, Doing: asking("the instance's id"), Text: "the answer is no id"}
	}
	return id, nil
}

func asking(what string) string { return "aws: asking the metadata service for " + what }

// unknown makes the fault of a question to the metadata service. It tells the
// status alone: an answer may hold credentials.
func unknown(ctx context.Context, what string, err error) error {
	f := &api.Fault{Class: cloud.ErrNoIdentity, Doing: asking(what), Text: "no answer as it should be", Temporary: true}
	if ctx.Err() != nil {
		f.Class = ctx.Err()
	}
	var status *smithyhttp.ResponseError
	if errors.As(err, &status) {
		f.Text = api.StatusCode(status.HTTPStatusCode())
	}
	return f
}
