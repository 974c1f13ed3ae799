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
// Serve does the same at any listener, to clients that have a token. All that can be asked for is JSON over HTTP, which openapi.json describes, but for what a shell of
// SQL and a reader of the engine have. A Client reaches a Server through the socket, or at an address. What can be asked for is in server.go; docs/operations.md describes it.
package admin

// Files, from the top down:
//
//	server.go actors.go keysread.go stateread.go queueread.go connsread.go workflowread.go workflowtree.go tracesread.go
//	databaseread.go sqlread.go hosts.go limits.go usage.go events.go openapi.go sqlclient.go queue.go state.go restore.go store.go conns.go awake.go database.go sql.go userkeys.go labels.go migrate.go index.go workflow.go
//	verb.go token.go route.go values.go client.go admin.go errors.go

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/drain"
)

// Actors are the actors of a store, as a tool reaches them. A greenroom.Store is such, and a host.Host, whose actors may be awake; see Runner.
type Actors interface {
	// Visit runs fn with an actor that exists, beside what the process does with it; see greenroom.Store.Visit.
	Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *greenroom.Actor) error) error
	// DropID removes an actor with everything in it; see greenroom.Store.DropID.
	DropID(ctx context.Context, id actorstore.ID) error
	// RestoreID makes an actor what it was; see greenroom.Store.RestoreID.
	RestoreID(ctx context.Context, id actorstore.ID, to archive.Bookmark, opts *greenroom.RestoreOptions) (*greenroom.Restored, error)
}

// Options change what Listen and Serve do; nil is the zero Options.
type Options struct {
	// Actors are asked for the actors that are written to; nil means the store itself. A program whose host has the
	// store gives its host.Host.
	Actors Actors
	// Logger is told which verb was done to which actor by which client, when it begins and when it ends, and what was refused; nil means slog.Default().
	Logger *slog.Logger
	// TxDeadline bounds how long a transaction of a tool's SQL may be open, which is one statement unless a BEGIN has begun it: the actor can't write meanwhile.
	// It bounds for how long the tool may take none of its rows, too. 0 means 30 seconds.
	TxDeadline time.Duration
	// QueryDeadline bounds how long a query may take that a tool asks for in JSON. 0 means 5 seconds.
	QueryDeadline time.Duration
	// MaxUpload bounds a database that is uploaded, in bytes: a larger one is greenroom.ErrTooLarge. It lies in a file of the system's folder for temporary ones
	// until it is the actor's. 0 means 1 GiB.
	MaxUpload int64
	// ConnState is told what becomes of connections, as that of an http.Server; nil means that nothing is.
	ConnState func(net.Conn, http.ConnState)
	// Tokens let clients of Serve in; Listen needs none.
	Tokens []Token
	// Metrics answers GET /v1/metrics, in the text format of Prometheus; nil means that there are none.
	Metrics http.Handler
	// Page answers what is not below /v1/, such as an inspector.Page. The Server asks for no token there: the Page admits clients by itself. nil means that nothing is there.
	Page http.Handler
}

// A Server answers tools. All methods are safe for concurrent use.
type Server struct {
	store   *greenroom.Store
	actors  Actors
	log     *slog.Logger
	txTime  time.Duration
	sqlTime time.Duration // of a query
	upload  int64         // the most bytes of a database
	states  func(net.Conn, http.ConnState)
	metrics http.Handler // nil for none
	page    http.Handler // nil for none
	tokens  []Token      // nil at the socket
	http    *http.Server
	ctx     context.Context // of what is being done: ends with Close
	stop    context.CancelFunc
	open    context.Context // of event streams: ends when Close begins
	shut    context.CancelFunc
	streams atomic.Int64 // of events

	asked   drain.Gate     // has the requests that are being answered, for which http.Server.Close doesn't wait
	working sync.WaitGroup // of engine connections, which the HTTP server has given away
}

// audited runs fn, and logs that it begins, and how it ends.
func (s *Server) audited(r *http.Request, verb, actor string, fn func(ctx context.Context) error) error {
	log := s.log.With(slog.String("verb", verb), slog.String("actor", actor), slog.String("by", clientOf(r.Context()).name))
	log.Info("admin: begin")
	err := fn(r.Context())
	if err != nil {
		log.Warn("admin: failed", slog.Any("error", err))
	} else {
		log.Info("admin: done")
	}
	return err
}

// idOf returns the id of the actor that is named, as in a store with greenroom.Options.IDs.
func idOf(ctx context.Context, s *greenroom.Store, actor string) (actorstore.ID, error) {
	if text, ok := strings.CutPrefix(actor, "id:"); ok {
		return actorstore.ParseID(text)
	}
	return s.ID(ctx, actor)
}

// visit runs fn with the actor that is named, as idOf says.
func (s *Server) visit(ctx context.Context, actor string, create bool, fn func(ctx context.Context, a *greenroom.Actor) error) error {
	id, err := idOf(ctx, s.store, actor)
	if err != nil {
		return err
	}
	err = s.actors.Visit(ctx, id, fn)
	if in := (*actorstore.InUseError)(nil); errors.As(err, &in) {
		return say(err, "the actor %s is in use by the host %q (%s), and this process can't write to it: try again, when it sleeps or that host has it no more", actor, in.Host.Name, in.Host.ID)
	}
	if errors.Is(err, actorstore.ErrInUse) {
		return say(err, "the actor %s is in use by the process that has the store open, which lets no tool write to it now: try again when the actor sleeps", actor)
	}
	if !create || !errors.Is(err, actorstore.ErrUnknownActor) {
		return err
	}
	return s.create(ctx, id, actor, fn)
}

// create runs fn with an actor that doesn't exist, which gets its name if it has one.
func (s *Server) create(ctx context.Context, id actorstore.ID, actor string, fn func(ctx context.Context, a *greenroom.Actor) error) error {
	// A store that takes no ids for names would give it the text as its name.
	if named, err := s.store.ID(ctx, actor); err != nil || named != id {
		return &Error{Code: "invalid", Message: "this process makes an actor by its name, and not by its id: " + actor}
	}
	a, err := s.store.Actor(ctx, actor, &greenroom.ActorOptions{Wait: true})
	if err != nil {
		return err
	}
	err = fn(ctx, a)
	if a.Err() == nil {
		err = errors.Join(err, a.Sync(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, a.Close())
}
