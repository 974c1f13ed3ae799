// Package front lets clients reach the actors of a host.Host over HTTP: calls with JSON
// or CBOR, and WebSockets for connections, events and calls.
//
//	POST /actors/{type}/{key}/actions/{action}   one call
//	GET  /actors/{type}/{key}/connect            a WebSocket
//	GET  /types                                  what may be called, for generators of clients
//	GET  /healthz, /readyz, /metrics             for operators
//	/fleet/                                      for other hosts of the store, if there are some
//
// A Front is an http.Handler; Front.Server has the time limits that belong to a server.
// docs/front.md describes what goes over the wire.
//
// A connection that hibernates is one here too: its socket stays open while its actor
// sleeps, and costs two goroutines at most. When the socket breaks, or the host is
// restarted, the client comes back with the token that it was given.
//
// A bearer token opens all of it. Of other requests Options.Authorize says from whom they are, and whether the caller may do what they ask for.
//
// It isn't a gateway: it has one host, which may forward to others of its store, and knows no users by itself.
package front

// Files, from the top down:
//
//	connect.go routes.go link.go resume.go requests.go health.go socket.go action.go front.go answers.go traceparent.go
//	auth.go protocol.go idempotency.go media.go keys.go metrics.go transfers.go options.go access.go errors.go

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/metrics"
)

// A Front serves one host. It is safe for concurrent use.
type Front struct {
	departure
	host  *host.Host
	opts  Options
	log   *slog.Logger
	meter metrics.Meter
	mux   *http.ServeMux
	fleet http.Handler // of requests of other hosts; nil if it takes none
	guard guard
	types []string

	ctx  context.Context // of sockets: ends when they are given up
	stop context.CancelFunc

	transfers transfers

	mu       sync.Mutex
	draining bool                 // +checklocks:mu
	requests int                  // calls and sockets, from their beginning to their end  +checklocks:mu
	calls    int                  // of these, calls whose body is there and whose answer isn't  +checklocks:mu
	open     int                  // of these, sockets whose first message is there  +checklocks:mu
	sockets  map[*socket]struct{} // that are connected  +checklocks:mu
	idle     chan struct{}        // closed when nothing is under way; nil unless Shutdown waits  +checklocks:mu
}

// New returns a Front for h, which stays its opener's to close, after Shutdown. It needs
// Options.Tokens, Options.Authorize or Options.WithoutToken.
//
// Errors: ErrOptions.
func New(h *host.Host, opts *Options) (*Front, error) {
	f := &Front{host: h, types: h.Types(), sockets: map[*socket]struct{}{}}
	var err error
	if f.opts, err = opts.orDefault(); err != nil {
		return nil, err
	}
	f.log, f.meter.To = f.opts.Logger, f.opts.Metrics
	f.transfers = transfers{opts: &f.opts, from: map[netip.Addr]*list.List{}}
	f.guard = newGuard(&f.opts)
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.mux = f.routes()
	if f.opts.Fleet != nil {
		f.fleet = linkServer{f}.routes()
	}
	return f, nil
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if f.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	if f.fleet != nil && strings.HasPrefix(r.URL.Path, "/fleet/") {
		f.fleet.ServeHTTP(w, r)
		return
	}
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// The server doesn't wait for a body that isn't read. A handler that reads it removes this.
		w.Header().Set("Connection", "close")
	}
	if err := f.guard.checkHost(r); err != nil {
		f.refuse(w, r, err)
		return
	}
	if done, err := f.guard.checkOrigin(w, r); err != nil {
		f.refuse(w, r, err)
		return
	} else if done {
		return
	}
	if r.Method == http.MethodConnect { // it is for a proxy, and names no path
		f.only(nil, nil)(w, r)
		return
	}
	f.mux.ServeHTTP(w, r)
}

// Server returns a server for f with time limits that go with Options: for the header, the
// body, and the answer. Its address and TLS are the caller's to set.
func (f *Front) Server() *http.Server {
	return &http.Server{
		Handler:           f,
		ReadHeaderTimeout: f.opts.HeaderTimeout,
		ReadTimeout:       f.opts.HeaderTimeout + f.opts.BodyTimeout,
		WriteTimeout:      f.opts.HeaderTimeout + f.opts.BodyTimeout + f.opts.CallTimeout + f.opts.WriteTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
}

// address returns which actor a request is about.
func (f *Front) address(r *http.Request) (host.Address, error) {
	a := host.Address{Type: r.PathValue("type"), Key: r.PathValue("key")}
	if !slices.Contains(f.types, a.Type) && !f.host.Forwards(r.Context(), a.Type) {
		return a, host.ErrNoType
	}
	return a, nil
}

// enter counts a request, which leave ends, unless the Front is shutting down.
func (f *Front) enter() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return host.ErrClosed
	}
	f.requests++
	return nil
}

func (f *Front) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests--
	if f.requests == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// reserve takes one of so many places, for release to give back.
func (f *Front) reserve(taken *int, places int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *taken >= places {
		return errBusy
	}
	*taken++
	return nil
}

func (f *Front) release(taken *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*taken--
}

// enlist has Shutdown find a socket. It is false if that has begun.
func (f *Front) enlist(s *socket) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return false
	}
	f.sockets[s] = struct{}{}
	return true
}

func (f *Front) delist(s *socket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sockets, s)
}

// A departure is the time before a Front is shut down.
type departure struct{ leaving atomic.Bool }

// Leave tells clients, with each answer from now on, not to send more requests over its connection, since the server is about to end. A while later Shutdown, and that of the server,
// cut few of them off.
func (d *departure) Leave() { d.leaving.Store(true) }

// Shutdown ends everything under way cleanly: it accepts nothing new, nor requests that
// are still arriving; calls are answered, and a socket is closed with code 1012 once the
// requests of its client are done.
// Connections that hibernate are kept: their clients come back to whichever host is there next.
// What isn't over when the context ends is given up, and the error says so.
//
// The http.Server's own Shutdown comes before it, or at the same time: it closes the
// listener, and knows nothing of WebSockets.
func (f *Front) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	f.draining = true
	for s := range f.sockets {
		go s.drain()
	}
	n := f.requests
	var idle chan struct{}
	if n > 0 {
		if f.idle == nil {
			f.idle = make(chan struct{})
		}
		idle = f.idle
	}
	f.mu.Unlock()
	defer f.stop()
	if cut := func() { f.transfers.shutdown(host.ErrClosed, false) }; n == 0 || !f.leaving.Load() {
		cut()
	} else {
		defer time.AfterFunc(swallowTime, cut).Stop() // what is about to arrive is answered, too
	}
	if n == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	err := fmt.Errorf("front: not everything could be ended: %w", context.Cause(ctx))
	// What is given up ends at once, without waiting for clients.
	f.stop()
	f.transfers.shutdown(host.ErrClosed, true)
	select {
	case <-idle:
	case <-time.After(giveUp):
		err = errors.Join(err, errors.New("front: requests are still under way"))
	}
	return err
}

// giveUp is how long Shutdown waits for what it has given up.
const giveUp = 5 * time.Second
