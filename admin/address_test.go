package admin_test

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// TestDialAddress: a client at an address does what one at the socket does, as far as its token lets it: in the clear, and through a proxy that speaks TLS.
func TestDialAddress(t *testing.T) {
	r := newRig(t, admin.Options{})
	plain := r.serveTCP(time.Second)
	at, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(at)
		p.Out.Host = at.Host
	}})
	defer proxy.Close()
	// What the system trusts is read once in a process, so this comes before all that dials.
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	for i, address := range []string{at.Host, proxy.URL} {
		if _, err := admin.DialAddress(t.Context(), address, "ffffffffffffffff"); !errors.As(err, new(*admin.Error)) {
			t.Errorf("%s, a wrong token: got %v", address, err)
		}
		reader, err := admin.DialAddress(t.Context(), address, readSecret)
		if err != nil {
			t.Fatal(err)
		}
		in := &admin.PutKeyIn{Key: "k", Value: []byte{byte(i)}}
		_, err = admin.PutKey.Ask(t.Context(), reader, "counter", false, in)
		if e := (*admin.Error)(nil); !errors.As(err, &e) || e.Code != "forbidden" {
			t.Errorf("%s, a token that may read: got %v", address, err)
		}
		reader.Close()
		writer, err := admin.DialAddress(t.Context(), address, writeSecret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.PutKey.Ask(t.Context(), writer, "counter", true, in); err != nil {
			t.Error(err)
		}
		s, err := writer.SQL(t.Context(), "counter", false)
		if err != nil {
			t.Fatal(err)
		}
		sink := &quiet{}
		if _, err := s.Run(t.Context(), "create table if not exists t(x); insert into t values (1); select x from t", sink); err != nil || sink.rows != i+1 {
			t.Errorf("%s: %d rows, %v", address, sink.rows, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		writer.Close()
	}
}

// TestDialAddressOnly: nothing is sent but to the address itself, and nothing to what isn't one, or has no certificate for it.
func TestDialAddressOnly(t *testing.T) {
	var elsewhere, bearers atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+writeSecret {
			bearers.Add(1)
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer moved.Close()
	t.Setenv("HTTP_PROXY", other.URL)
	at := strings.TrimPrefix(moved.URL, "http://")
	if _, err := admin.DialAddress(t.Context(), at, writeSecret); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("a process that says another address: got %v", err)
	}
	if bearers.Load() != 1 || elsewhere.Load() != 0 {
		t.Errorf("%d requests with the token, %d elsewhere", bearers.Load(), elsewhere.Load())
	}
	for _, address := range []string{"", "shop", "http://" + at, "user@" + at, at + "/v1", "https://" + at} {
		if _, err := admin.DialAddress(t.Context(), address, writeSecret); err == nil {
			t.Errorf("%q: got a client", address)
		}
	}
	if bearers.Load() != 1 {
		t.Errorf("%d requests with the token", bearers.Load())
	}
}

// TestDialAddressFlood: an error without an end isn't read to its end.
func TestDialAddressFlood(t *testing.T) {
	flood := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for _, err := io.WriteString(w, `{"message":"`); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<16))
		}
	}))
	defer flood.Close()
	if _, err := admin.DialAddress(t.Context(), strings.TrimPrefix(flood.URL, "http://"), writeSecret); err == nil || len(err.Error()) > 1000 {
		t.Errorf("got %.1000v", err)
	}
}
