package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// The most that an old store may answer. A cluster of 5,000 nodes takes 2 MB.
const (
	maxAnswer = 64 << 20
	maxTTL    = 366 * 24 * time.Hour
)

// v2Node is a key of the API v2 with its value, or a directory.
type v2Node struct {
	Key        string   `json:"key"`
	Dir        bool     `json:"dir"`
	Value      string   `json:"value"`
	TTL        int64    `json:"ttl"` // seconds left
	Expiration string   `json:"expiration"`
	Nodes      []v2Node `json:"nodes"`
}

// Record is a key of the old store with its value.
type Record struct {
	Key     string
	Value   []byte
	Forever bool          // it has no TTL: a reservation
	TTL     time.Duration // the time left when it was read
}

// Records holds what the old store has below a prefix.
type Records struct {
	Config  *Record
	Subnets []Record
}

// Fetch reads all records below a prefix of an old store. It asks with quorum, as a
// member of the cluster may lag behind.
func Fetch(ctx context.Context, client *http.Client, from, prefix string) (Records, error) {
	address, err := url.Parse(from)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return Records{}, errors.New("--from: want the URL of an etcd, such as http://10.0.0.1:2379")
	}
	keys := address.JoinPath("v2/keys", prefix)
	keys.RawQuery = "recursive=true&quorum=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, keys.String(), nil)
	if err != nil {
		return Records{}, fmt.Errorf("read %s: %w", keys.Redacted(), err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return Records{}, fmt.Errorf("read the old etcd: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return Records{}, fmt.Errorf("read %s: %w", keys.Redacted(), err)
	}
	if len(body) > maxAnswer {
		return Records{}, fmt.Errorf("read %s: the answer has more than %d bytes", keys.Redacted(), maxAnswer)
	}
	records, err := parse(answer.StatusCode, body, prefix)
	if err != nil {
		return Records{}, fmt.Errorf("read %s: %w", keys.Redacted(), err)
	}
	return records, nil
}

// parse reads an answer of the API v2.
func parse(status int, body []byte, prefix string) (Records, error) {
	var answer struct {
		Node    *v2Node `json:"node"`
		Code    int     `json:"errorCode"`
		Message string  `json:"message"`
	}
	err := json.Unmarshal(body, &answer)
	switch {
	case err == nil && answer.Code != 0:
		return Records{}, fmt.Errorf("the old etcd says: %s (%d)", shorten(answer.Message), answer.Code)
	case status != http.StatusOK:
		return Records{}, fmt.Errorf("status %d: is this an etcd with the API v2? etcd 3.4 and 3.5 need --enable-v2", status)
	case err != nil:
		return Records{}, errors.New("the answer is not that of an etcd with the API v2")
	case answer.Node == nil || !answer.Node.Dir:
		return Records{}, errors.New("the prefix is no directory")
	}
	return sortOut(*answer.Node, prefix), nil
}

// sortOut takes the config and the subnets from a tree. Other keys belong to other
// programs, or to networks with names, which have a prefix of their own.
func sortOut(root v2Node, prefix string) Records {
	var records Records
	prefix = strings.TrimSuffix(path.Join("/", prefix), "/")
	for _, child := range root.Nodes {
		switch {
		case child.Key == prefix+"/config" && !child.Dir:
			record := child.record()
			records.Config = &record
		case child.Key == prefix+"/subnets" && child.Dir:
			for _, subnet := range child.Nodes {
				if !subnet.Dir {
					records.Subnets = append(records.Subnets, subnet.record())
				}
			}
		}
	}
	return records
}

func (n v2Node) record() Record {
	forever := n.TTL == 0 && n.Expiration == ""
	ttl := maxTTL + 1
	if n.TTL <= int64(maxTTL/time.Second) {
		ttl = time.Duration(n.TTL) * time.Second
	}
	return Record{Key: n.Key, Value: []byte(n.Value), Forever: forever, TTL: ttl}
}

// shorten cuts a text of the old store.
func shorten(text string) string {
	const most = 200
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
