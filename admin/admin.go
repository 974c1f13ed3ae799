// Package admin lets tools look into a store that a process has open, and work with what is in it: it is how
// "greenroom ls data" answers while "greenroom host data" runs.
//
// A Server listens on a socket beside the store's files, which only the user of the process gets through, and root. A
// program of its own serves its store in the same way:
//
//	store, err := greenroom.Open(ctx, "shop.store", nil)
//	…
//	tools, err := admin.Listen(ctx, "shop.store", store, nil)
//	…
//	defer tools.Close()
//
// A Client reaches a Server. What can be asked for is in routes.go; docs/operations.md describes it.
package admin

// Files, from the top down:
//
//	routes.go userkeys.go store.go queue.go workflow.go conns.go sql.go database.go verb.go admin.go sqlclient.go
//	client.go cancels.go errors.go

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/adminsock"
)

// Actors are the actors of a store, as a tool reaches them. A greenroom.Store is such, and a host.Host, whose actors may be awake.
type Actors interface {
	// Visit runs fn with an actor that exists, beside what the process does with it; see greenroom.Store.Visit.
	Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *greenroom.Actor) error) error
	// DropID removes an actor with everything in it; see greenroom.Store.DropID.
	DropID(ctx context.Context, id actorstore.ID) error
}

// Options change what Listen does; nil is the zero Options.
type Options struct {
	// Actors are asked for the actors that are written to; nil means the store itself. A program whose host has the
	// store gives its host.Host.
	Actors Actors
	// Logger is told which verb was done to which actor, when it begins and when it ends, and what was refused; nil means slog.Default().
	Logger *slog.Logger
	// TxDeadline bounds how long a transaction that a tool has begun may be open: the actor can't write meanwhile. 0 means 30 seconds.
	TxDeadline time.Duration
}

// A Server answers tools. All methods are safe for concurrent use.
type Server struct {
	store  *greenroom.Store // which takes ids for names
	door   *greenroom.Store // of the process
	actors Actors
	log    *slog.Logger
	txTime time.Duration
	http   *http.Server
	ctx    context.Context // of what is being done: ends with Close
	stop   context.CancelFunc

	working sync.WaitGroup // of engine connections, which the HTTP server has given away
}

// Listen serves the store, which is open in the directory dir of this process, at the socket there, until the Server is
// closed: before the store, and before what Options.Actors is.
func Listen(ctx context.Context, dir string, store *greenroom.Store, opts *Options) (*Server, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Server{door: store, actors: o.Actors, log: o.Logger, txTime: cmp.Or(o.TxDeadline, 30*time.Second)}
	if s.actors == nil {
		s.actors = store
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	var err error
	if s.store, err = greenroom.New(ctx, store.Engine(), &greenroom.Options{IDs: true, Logger: s.log}); err != nil {
		return nil, err
	}
	ln, err := adminsock.Listen(ctx, dir, func(err error) {
		s.log.Warn("admin: a connection was refused", slog.Any("error", err))
	})
	if err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
	}
	s.working.Go(func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin: the socket is of no use any more", slog.Any("error", err))
		}
	})
	return s, nil
}

// closing is how long Close waits for what is being done.
const closing = 5 * time.Second

// Close ends the Server: it takes nothing new, and what isn't done in 5 seconds is given up. It returns when nothing uses the store any
// more.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err := s.http.Shutdown(ctx)
	s.stop()
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.working.Wait()
	if err != nil {
		err = fmt.Errorf("admin: close: %w", err)
	}
	return errors.Join(err, s.store.Close())
}
