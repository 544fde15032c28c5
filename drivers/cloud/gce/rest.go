package gce

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// ask sends a request, and again while Google throttles or fails, and reads the
// answer into out.
func (c *Client) ask(ctx context.Context, doing, right, method, path string, in, out any) error {
	var content []byte
	if in != nil {
		var err error
		content, err = json.Marshal(in)
		if err != nil {
			return &api.Fault{Doing: doing, Text: err.Error()}
		}
	}
	return api.Retry(ctx, func(ctx context.Context) error {
		token, err := c.tokens.get(ctx)
		if err != nil {
			return err
		}
		c.secrets.Add(token)
		req, err := http.NewRequestWithContext(ctx, method, c.base+"/compute/v1"+path, bytes.NewReader(content))
		if err != nil {
			return &api.Fault{Doing: doing, Text: c.secrets.Clean(err.Error())}
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if content != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		reply, err := api.Send(c.http, req, doing, c.secrets)
		if err != nil {
			return err
		}
		if reply.Status != http.StatusOK {
			return c.fault(doing, right, reply)
		}
		if err := json.Unmarshal(reply.Body, out); err != nil {
			return &api.Fault{Doing: doing, Text: "the answer does not parse: " + c.secrets.Clean(err.Error())}
		}
		return nil
	})
}

// parseError returns the reason and the text of an error.
func parseError(body []byte) (reason, text string) {
	var answer struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", ""
	}
	if len(answer.Error.Errors) > 0 {
		reason = answer.Error.Errors[0].Reason
	}
	return reason, answer.Error.Message
}

// throttles are the reasons of too many requests, which come with the status 403, too.
var throttles = map[string]bool{
	"rateLimitExceeded": true, "userRateLimitExceeded": true, "RATE_LIMIT_EXCEEDED": true, "quotaExceededPerMinute": true,
}

// quotas are the reasons of a full project.
var quotas = map[string]bool{
	"quotaExceeded": true, "QUOTA_EXCEEDED": true, "limitExceeded": true, "LIMIT_EXCEEDED": true,
}

// fault classifies an answer by its reason, or else by its status.
func (c *Client) fault(doing, right string, reply api.Reply) *api.Fault {
	reason, text := parseError(reply.Body)
	f := &api.Fault{
		Doing: doing, Code: c.secrets.Clean(reason), Text: c.secrets.Clean(text), Wait: api.RetryAfter(reply.Header),
	}
	if reason == "" {
		f.Code = api.StatusCode(reply.Status)
	}
	c.classify(f, right, reason, reply.Status)
	return f
}

// classify finds the class of a reason, which an answer or an operation gives.
func (c *Client) classify(f *api.Fault, right, reason string, status int) {
	switch {
	case throttles[reason] || status == http.StatusTooManyRequests:
		f.Class = cloud.ErrThrottled
		f.Temporary = true
	case quotas[reason]:
		f.Class = cloud.ErrQuota
		f.Advice = limit
	case reason == "alreadyExists" || reason == "RESOURCE_ALREADY_EXISTS" || status == http.StatusConflict:
		f.Class = cloud.ErrExists
	case reason == "resourceNotReady" || reason == "RESOURCE_NOT_READY":
		f.Temporary = true
	case status == http.StatusUnauthorized:
		f.Class = cloud.ErrDenied
		f.Advice = "the token is not accepted; it needs the right " + right
		c.tokens.token = nil
	case status == http.StatusForbidden:
		f.Class = cloud.ErrDenied
		f.Advice = "the account needs the right " + right + ", and the instance the scope compute (read and write)"
	case status == http.StatusNotFound && right == "compute.routes.delete":
		f.Class = cloud.ErrNotFound
	default:
		f.Temporary = status >= 500
	}
}

// operation is a change that Google carries out.
type operation struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	HTTP   int    `json:"httpErrorStatusCode"`
	Error  struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	} `json:"error"`
}

// change makes a change and asks each second whether it is done, at most a hundred
// times (interop 6.9).
func (c *Client) change(ctx context.Context, me *self, doing, right, method, path string, in any) error {
	var op operation
	if err := c.ask(ctx, doing, right, method, "/projects/"+me.project+path, in, &op); err != nil {
		return err
	}
	if !isName(op.Name) {
		return &api.Fault{Doing: doing, Text: "the answer is no operation"}
	}
	name := op.Name
	err := api.Poll(ctx, doing, 100, func(ctx context.Context) (bool, error) {
		if op.Status == "DONE" {
			return true, nil
		}
		return false, c.ask(ctx, doing, "compute.globalOperations.get", http.MethodGet,
			"/projects/"+me.project+"/global/operations/"+name, nil, &op)
	})
	if err != nil || len(op.Error.Errors) == 0 {
		return err
	}
	first := op.Error.Errors[0]
	f := &api.Fault{Doing: doing, Code: c.secrets.Clean(first.Code), Text: c.secrets.Clean(first.Message)}
	c.classify(f, right, first.Code, op.HTTP)
	return f
}

// isName reports whether a text is fit for the path of a URL.
func isName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return s != ""
}
