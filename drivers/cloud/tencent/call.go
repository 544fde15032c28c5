package tencent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common"
	tchttp "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/http"
	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common/profile"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// version is the version of the VPC's API.
const version = "2017-03-12"

// call sends a request, and again while Tencent throttles or fails, and reads the
// answer into out. The SDK's own retries are off: they know no end of a context.
func (c *Client) call(ctx context.Context, region, action, about string, params map[string]any, out any) error {
	doing := "tencent: " + action + " " + about
	return api.Retry(ctx, func(ctx context.Context) error {
		w := &wire{client: &http.Client{Transport: c.transport}, doing: doing, secrets: c.secrets}
		request := tchttp.NewCommonRequest("vpc", version, action)
		request.SetContext(ctx)
		if err := request.SetActionParameters(params); err != nil {
			return &api.Fault{Doing: doing, Text: c.secrets.Clean(err.Error())}
		}
		client := common.NewCommonClient(common.NewCredential(c.id, c.secret), region, c.profile())
		err := client.WithHttpTransport(w).Send(request, tchttp.NewCommonResponse())
		switch {
		case w.fault != nil:
			return w.fault
		case w.reply.Status == 0:
			return &api.Fault{Doing: doing, Text: c.secrets.Clean(err.Error())}
		case w.reply.Status != http.StatusOK || parseCode(w.reply.Body) != "":
			return c.fault(action, doing, w.reply)
		case err != nil:
			return &api.Fault{Doing: doing, Text: "the answer does not parse: " + c.secrets.Clean(err.Error())}
		}
		answer := struct{ Response any }{out}
		if err := json.Unmarshal(w.reply.Body, &answer); err != nil {
			return &api.Fault{Doing: doing, Text: "the answer does not parse: " + c.secrets.Clean(err.Error())}
		}
		return nil
	})
}

// profile returns the SDK's settings.
func (c *Client) profile() *profile.ClientProfile {
	p := profile.NewClientProfile()
	p.Language = "en-US"
	p.HttpProfile.Endpoint = "vpc.tencentcloudapi.com"
	if at, err := url.Parse(c.endpoint); c.endpoint != "" && err == nil {
		p.HttpProfile.Scheme = strings.ToUpper(at.Scheme)
		p.HttpProfile.Endpoint = at.Host
	}
	return p
}

// wire is the transport of one request. It bounds the answer and keeps it, because
// the SDK would read any length and changes numbers.
type wire struct {
	client  *http.Client
	doing   string
	secrets api.Secrets
	reply   api.Reply
	fault   error
}

// RoundTrip sends the request. A redirect is an answer like others.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out := req.Clone(req.Context())
	out.RequestURI = ""
	w.reply, w.fault = api.Send(w.client, out, w.doing, w.secrets)
	if w.fault != nil {
		return nil, w.fault
	}
	resp := &http.Response{
		StatusCode: w.reply.Status, Status: http.StatusText(w.reply.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(w.reply.Body)), Request: req,
	}
	return resp, nil
}

// refusal is the error in an answer, whose status is 200.
type refusal struct {
	Response struct {
		Error struct{ Code, Message string }
	}
}

// parseCode returns the code of an error, or nothing.
func parseCode(body []byte) string {
	var r refusal
	if json.Unmarshal(body, &r) != nil {
		return ""
	}
	return r.Response.Error.Code
}

func isOne(code string, begins ...string) bool {
	for _, begin := range begins {
		if strings.HasPrefix(code, begin) {
			return true
		}
	}
	return false
}

// fault classifies an answer by its code.
func (c *Client) fault(action, doing string, reply api.Reply) *api.Fault {
	var r refusal
	if json.Unmarshal(reply.Body, &r) != nil {
		r = refusal{}
	}
	code := r.Response.Error.Code
	f := &api.Fault{
		Doing: doing, Code: c.secrets.Clean(code), Text: c.secrets.Clean(r.Response.Error.Message),
		Wait: api.RetryAfter(reply.Header),
	}
	if code == "" {
		f.Code = api.StatusCode(reply.Status)
	}
	switch {
	case isOne(code, "RequestLimitExceeded") || reply.Status == http.StatusTooManyRequests:
		f.Class = cloud.ErrThrottled
		f.Temporary = true
	case isOne(code, "LimitExceeded", "VpcLimitExceeded"):
		f.Class = cloud.ErrQuota
		f.Advice = limit
	case isOne(code, "InvalidParameterValue.Duplicate", "UnsupportedOperation.Ecmp", "ResourceInUse"):
		f.Class = cloud.ErrExists
	case action == "DeleteRoutes" && isOne(code, "ResourceNotFound", "InvalidRouteId.NotFound"):
		f.Class = cloud.ErrNotFound
	case isOne(code, "UnauthorizedOperation", "AuthFailure.UnauthorizedOperation", "OperationDenied"):
		f.Class = cloud.ErrDenied
		f.Advice = "the credentials need the right vpc:" + action
	case isOne(code, "AuthFailure") || reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden:
		f.Class = cloud.ErrDenied
		f.Advice = "the credentials are not accepted; they need the right vpc:" + action
	default:
		f.Temporary = isOne(code, "InternalError", "ServiceUnavailable", "ResourceUnavailable") || reply.Status >= 500
	}
	return f
}
