package noredirect

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestClient(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the client followed a redirect")
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		resp, err := Client(http.DefaultClient).Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status {
			t.Errorf("status %d, want %d", resp.StatusCode, status)
		}
		_ = resp.Body.Close()
		server.Close()
	}
	if http.DefaultClient.CheckRedirect != nil {
		t.Error("the client of other packages has changed")
	}
}
