package client_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var (
	must  = testkit.Must
	quiet = slog.New(slog.DiscardHandler)
)

// An entry is what a ledger keeps.
type entry struct {
	ID   int64  `json:"id"`
	Word string `json:"word"`
}

// The actions of a ledger.
var (
	// add enters a word, and tells those that have subscribed to "entry".
	add = host.NewAction("add", func(c *host.Context, word string) (e entry, err error) {
		if e, err = greenroom.SelectOne[entry](c, "insert into entry(word) values(?) returning id, word", word); err != nil {
			return e, err
		}
		return e, c.Broadcast("entry", e)
	})
	// looks is told of each turn of entries, unless it is full.
	looks = make(chan struct{}, 1)
	// entries returns the next ten entries behind one.
	entries = host.NewAction("entries", func(c *host.Context, since int64) ([]entry, error) {
		select {
		case looks <- struct{}{}:
		default:
		}
		return greenroom.Select[entry](c, "select id, word from entry where id > ? order by id limit 10", since)
	})
	refuse = host.NewCommand("refuse", func(*host.Context, struct{}) error { return &host.Error{Code: "no_ink", Message: "There is no ink."} })
	flood  = host.NewCommand("flood", func(c *host.Context, n int) error {
		for range n {
			if err := c.Broadcast("drop", "x"); err != nil {
				return err
			}
		}
		return nil
	})
	kick = host.NewCommand("kick", func(c *host.Context, why string) error { return c.Conn().Disconnect(why) })
)

// ledger is the type of the actors of all tests.
func ledger() *host.Type {
	return &host.Type{
		Name: "ledger",
		Create: func(c *host.Context) error {
			_, err := c.Exec("create table entry(id integer primary key, word text)")
			return err
		},
		Actions: []host.AnyAction{add, entries, refuse, flood, kick},
		Connect: func(_ *host.Context, n *host.Conn) error {
			var name string
			if err := n.Parameters(&name); err != nil {
				return err
			}
			if name == "eve" {
				return &host.Error{Code: "unwelcome", Message: "You are not welcome."}
			}
			return n.Send("hello", name)
		},
	}
}

// A rig is a host with its front, at an address that stays.
type rig struct {
	testing.TB
	engine kv.Engine
	opts   front.Options
	host   *host.Host
	front  *front.Front
	server *http.Server
	dup    func() net.Listener
	client *client.Client
	actor  *client.Actor

	// between gets each call on its way, and passes it to the front or not; nil for the front alone.
	between func(w http.ResponseWriter, r *http.Request, front http.Handler)
	calls   atomic.Int64 // requests over HTTP
}

func newRig(t testing.TB, opts front.Options, o *client.Options) *rig {
	t.Helper()
	r := &rig{TB: t, engine: memkv.New(), opts: opts}
	r.opts.WithoutToken, r.opts.Logger = len(opts.Tokens) == 0, quiet
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	file, err := ln.(*net.TCPListener).File()
	must(t, err)
	url := "http://" + ln.Addr().String()
	must(t, ln.Close())
	r.dup = func() net.Listener {
		ln, err := net.FileListener(file)
		must(t, err)
		return ln
	}
	r.client, err = client.New(url, o)
	must(t, err)
	r.actor = r.client.Actor(host.Address{Type: "ledger", Key: "a/b"})
	r.open()
	t.Cleanup(func() {
		r.close()
		must(t, file.Close())
	})
	return r
}

func (r *rig) open() {
	r.Helper()
	ctx := context.Background()
	var err error
	r.host, err = host.Open(ctx, r.engine, []*host.Type{ledger()}, &host.Options{IdleTimeout: 10 * time.Millisecond, Logger: quiet, Store: &greenroom.Options{}})
	must(r, err)
	r.opts.Secret = []byte("0123456789abcdef")
	r.front, err = front.New(r.host, &r.opts)
	must(r, err)
	r.server = r.front.Server()
	handler := r.server.Handler
	r.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPost || r.between == nil {
			handler.ServeHTTP(w, q)
			return
		}
		r.calls.Add(1)
		r.between(w, q, handler)
	})
	ln, server := r.dup(), r.server
	go func() { _ = server.Serve(ln) }()
}

// close is a shutdown in good order.
func (r *rig) close() {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(time.Second))
	defer cancel()
	must(r, r.front.Shutdown(ctx))
	must(r, r.server.Close())
	must(r, r.host.Close(ctx))
}

// connect connects, with what comes in a channel.
func (r *rig) connect(o client.ConnectOptions) (*client.Conn, *heard) {
	r.Helper()
	h := &heard{r, make(chan string, 1000)}
	if o.OnEvent == nil {
		o.OnEvent = func(name string, body host.Raw) {
			var word any
			must(r, body.Decode(&word))
			h.all <- name
		}
	}
	o.OnState = func(s client.State, resumed bool, err error) {
		if resumed {
			h.all <- "resumed"
			return
		}
		h.all <- s.String()
	}
	c, err := r.actor.Connect(r.Context(), &o)
	must(r, err)
	r.Cleanup(c.Close)
	return c, h
}

// heard is what a client was told, in its order.
type heard struct {
	testing.TB
	all chan string
}

// want waits for what is told next.
func (h *heard) want(words ...string) {
	h.Helper()
	for _, word := range words {
		select {
		case got := <-h.all:
			if got != word {
				h.Fatalf("heard %q, want %q", got, word)
			}
		case <-time.After(testkit.Patience(20 * time.Second)):
			h.Fatalf("%q wasn't heard", word)
		}
	}
}
