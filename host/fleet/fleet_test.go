package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var (
	must  = testkit.Must
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// A node is a host, and the server at which others reach it.
type node struct {
	*host.Host
	peers   *fleet.Fleet
	server  *httptest.Server
	handler http.Handler
	address string
}

// begun gets a value when the turn of the action left has begun.
var begun = make(chan struct{}, 1)

var add = host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
	err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
	return total, err
})

// kinds returns the types of a node: counters that tell at which address they are.
func kinds(address string) []*host.Type {
	return []*host.Type{{Name: "counter", Actions: []host.AnyAction{
		add,
		host.NewAction("at", func(*host.Context, struct{}) (string, error) { return address, nil }),
		host.NewAction("caller", func(c *host.Context, _ struct{}) (string, error) {
			if c.Caller() == nil {
				return "none", nil
			}
			return c.Caller().ID + " " + string(c.Caller().Claims), nil
		}),
		host.NewAction("left", func(c *host.Context, _ struct{}) (int64, error) {
			begun <- struct{}{}
			<-c.Done() // turns have a bound of their own
			return 0, c.Err()
		}),
	}}}
}

// open starts a node on an engine. wrap, if it isn't nil, is put around its handler.
func open(t *testing.T, below kv.Engine, wrap func(http.Handler) http.Handler) *node {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	n := &node{address: ln.Addr().String()}
	engine := engines.Shared(below)
	n.peers, err = fleet.Open(t.Context(), engine, &fleet.Options{Address: n.address, Logger: quiet})
	must(t, err)
	n.Host, err = host.Open(t.Context(), engine, kinds(n.address), &host.Options{
		Logger: quiet, IdleTimeout: time.Hour, TurnTimeout: 200 * time.Millisecond, Peers: n.peers.Peers(),
	})
	must(t, err)
	n.handler = n.peers.Handler(n.Host)
	served := n.handler
	if wrap != nil {
		served = wrap(served)
	}
	n.server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: served}}
	n.server.Start()
	t.Cleanup(func() {
		n.server.Close()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		n.peers.Close()
	})
	return n
}

func invoke[Out any](ctx context.Context, n *node, key, action string, in any) (out Out, err error) {
	args, err := host.Encode(in)
	if err != nil {
		return out, err
	}
	r, err := n.Do(ctx, &host.Call{Actor: host.Address{Type: "counter", Key: key}, Action: action, Args: args})
	if err != nil {
		return out, err
	}
	return out, r.Decode(&out)
}

// away returns the key of an actor that a has at b's.
func away(t *testing.T, a, b *node) string {
	t.Helper()
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		at, err := invoke[string](t.Context(), a, key, "at", nil)
		must(t, err)
		if at == b.address {
			return key
		}
	}
	t.Fatal("all actors are at one host")
	return ""
}

// TestCarry: calls go to the host that has the actor, with their caller, and come back with their errors.
func TestCarry(t *testing.T) {
	below := memkv.New()
	a, b := open(t, below, nil), open(t, below, nil)
	key := away(t, a, b)
	for i, n := range []*node{a, b, a} {
		if got, err := invoke[int](t.Context(), n, key, "add", 1); got != i+1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
	}
	for _, c := range []*host.Caller{nil, {}, {ID: "ada", Claims: json.RawMessage(`{"a":1}`)}} {
		ctx, want := t.Context(), "none"
		if c != nil {
			ctx, want = host.WithCaller(ctx, c), c.ID+" "+string(c.Claims)
		}
		if got, err := invoke[string](ctx, a, key, "caller", nil); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	_, err := invoke[int](t.Context(), a, key, "none", nil)
	wantErr(t, err, host.ErrNoAction)
	if got, err := invoke[string](t.Context(), a, key, "at", strings.Repeat("x", 3<<20)); err != nil || got != b.address {
		t.Errorf("a large request: %q, %v", got, err)
	}
	_, err = invoke[string](host.WithCaller(t.Context(), &host.Caller{ID: strings.Repeat("x", 20_000)}), a, key, "caller", nil)
	wantErr(t, err, host.ErrArgs)
}

// TestCarryLost: what is lost on the way is told as it is: nothing was done, or that isn't known.
func TestCarryLost(t *testing.T) {
	below := memkv.New()
	var mode atomic.Value
	mode.Store("")
	b := open(t, below, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch mode.Load() {
			case "before": // the connection ends when the request is there
				panic(http.ErrAbortHandler)
			case "after":
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case "replaced": // by another process at the address
				mode.Store("another")
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case "another":
				w.Header().Set("Greenroom-Reason", "another-host")
				w.WriteHeader(http.StatusMisdirectedRequest)
			case "proxy":
				w.WriteHeader(http.StatusBadGateway)
			case "changed":
				r.URL.RawQuery = "changed"
				next.ServeHTTP(w, r)
			case "body":
				r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", int(r.ContentLength))))
				next.ServeHTTP(w, r)
			case "twice":
				again := r.Clone(r.Context())
				body, _ := io.ReadAll(r.Body)
				r.Body, again.Body = io.NopCloser(strings.NewReader(string(body))), io.NopCloser(strings.NewReader(string(body)))
				next.ServeHTTP(httptest.NewRecorder(), again)
				next.ServeHTTP(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	a := open(t, below, nil)
	key := away(t, a, b)
	ctx := t.Context()
	landed := 0
	for _, tt := range []struct {
		mode  string
		want  error
		lands int
	}{
		{"before", host.ErrUnknownOutcome, 0}, {"after", host.ErrUnknownOutcome, 1}, {"proxy", host.ErrUnknownOutcome, 0},
		{"changed", host.ErrUnreachable, 0}, {"body", host.ErrUnreachable, 0}, {"twice", host.ErrUnknownOutcome, 1}, {"", nil, 1},
		{"replaced", host.ErrUnknownOutcome, 1},
	} {
		mode.Store(tt.mode)
		if _, err := invoke[int](ctx, a, key, "add", 1); !errors.Is(err, tt.want) || tt.want == host.ErrUnknownOutcome && errors.Is(err, host.ErrUnreachable) {
			t.Errorf("%s: got %v, want %v", tt.mode, err, tt.want)
		}
		mode.Store("")
		landed += tt.lands
		if n, err := invoke[int](ctx, b, key, "add", 0); n != landed || err != nil {
			t.Errorf("%s: %d have landed, want %d, %v", tt.mode, n, landed, err)
		}
	}
	must(t, b.server.Listener.Close())
	a.peers.Close() // a connection that ends just as a request goes over it leaves it open whether that has come
	_, err := invoke[int](ctx, a, key, "add", 1)
	wantErr(t, err, host.ErrUnreachable)
	if n, err := invoke[int](ctx, b, key, "add", 0); n != landed || err != nil {
		t.Errorf("%d have landed, want %d, %v", n, landed, err)
	}
}

// TestCarryDeadline: a caller's deadline goes with its call, and a caller that leaves takes it back.
func TestCarryDeadline(t *testing.T) {
	below := memkv.New()
	a, b := open(t, below, nil), open(t, below, nil)
	key := away(t, a, b)
	busy := make(chan error, 1)
	go func() {
		_, err := invoke[int](context.Background(), b, key, "left", nil) // until its turn is cut off
		busy <- err
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := invoke[int](ctx, a, key, "add", 1)
	wantErr(t, err, context.DeadlineExceeded)
	if errors.Is(err, host.ErrUnknownOutcome) {
		t.Errorf("its turn had not begun: %v", err)
	}
	if err := <-busy; err == nil {
		t.Error("the turn wasn't cut off")
	}
	if n, err := invoke[int](t.Context(), a, key, "add", 1); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// TestRefused: what comes from elsewhere than a host of the store is refused, before its body is read.
func TestRefused(t *testing.T) {
	below := memkv.New()
	a := open(t, below, nil)
	stranger := open(t, memkv.New(), nil)
	for h, err := range a.Store().Lower().Hosts(t.Context()) {
		must(t, err)
		_, err := stranger.peers.Carry(t.Context(), &h, []byte{1})
		wantErr(t, err, host.ErrUnreachable)
		other := h
		other.ID[0]++
		_, err = a.peers.Carry(t.Context(), &other, []byte{1}) // as if another process had the address
		wantErr(t, err, host.ErrUnreachable)
		answer, err := a.peers.Carry(t.Context(), &h, []byte{99})
		must(t, err)
		if err := host.ToldError(&h, answer); err == nil {
			t.Error("a request of an unknown version was done")
		}
		far := h
		far.Offer.Address = "192.0.2.1:80"
		_, err = a.peers.Carry(t.Context(), &far, []byte{1})
		if wantErr(t, err, host.ErrUnreachable); !strings.Contains(err.Error(), "unencrypted") {
			t.Errorf("got %v", err)
		}
	}
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPost, "/fleet/v1/request", http.StatusUnauthorized}, {http.MethodGet, "/fleet/v1/request", http.StatusMethodNotAllowed},
		{http.MethodPost, "/fleet/v2/request", http.StatusNotFound},
	} {
		body := &unread{}
		r := httptest.NewRequest(tt.method, tt.path, body)
		r.ContentLength = 1 << 20
		w := httptest.NewRecorder()
		if a.handler.ServeHTTP(w, r); w.Code != tt.want || body.read || w.Body.Len() > 100 {
			t.Errorf("%s %s: %d, its body was read: %v, %q", tt.method, tt.path, w.Code, body.read, w.Body)
		}
	}
}

type unread struct{ read bool }

func (u *unread) Read([]byte) (int, error) { u.read = true; return 0, io.EOF }

// TestOptions: an address beyond loopback takes TLS, or Insecure.
func TestOptions(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "https://pod.lan:1": true, "pod.lan:1": false, "192.0.2.1:1": false, "": false, "pod": false,
	} {
		for _, insecure := range []bool{false, true} {
			f, err := fleet.Open(t.Context(), memkv.New(), &fleet.Options{Address: address, Insecure: insecure})
			want := ok || insecure && actorstore.CheckAddress(address) == nil
			if (err == nil) != want || err != nil && !errors.Is(err, fleet.ErrOptions) {
				t.Errorf("%q, insecure %v: %v", address, insecure, err)
			}
			if f != nil {
				f.Close()
			}
		}
	}
}
