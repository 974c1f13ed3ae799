package admin

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/adminsock"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/remotekv"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// Listen serves the store, which is open in the directory dir of this process, at the socket there, until the Server is
// closed: before the store, and before what Options.Actors is. Clients have RoleWrite.
func Listen(ctx context.Context, dir string, store *greenroom.Store, opts *Options) (*Server, error) {
	s := newServer(ctx, store, opts)
	ln, err := adminsock.Listen(ctx, dir, func(err error) {
		s.log.Warn("admin: a connection was refused", slog.Any("error", err))
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	s.tokens = nil
	s.serve(ln)
	return s, nil
}

// Serve serves the store at ln to clients that have one of Options.Tokens, until the Server is closed, as Listen. It closes ln, also if it fails. It doesn't
// encrypt what it says: beyond this machine that is for what is in front of it, or for ln.
//
// Errors: ErrTokens.
func Serve(ctx context.Context, ln net.Listener, store *greenroom.Store, opts *Options) (*Server, error) {
	s := newServer(ctx, store, opts)
	if err := CheckTokens(s.tokens); err != nil {
		s.stop()
		return nil, errors.Join(err, ln.Close())
	}
	s.serve(ln)
	return s, nil
}

// newServer returns a Server that doesn't serve yet.
func newServer(ctx context.Context, store *greenroom.Store, opts *Options) *Server {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Server{
		store: store, actors: o.Actors, log: o.Logger, metrics: o.Metrics, page: o.Page, txTime: cmp.Or(o.TxDeadline, 30*time.Second), tokens: slices.Clone(o.Tokens),
		sqlTime: cmp.Or(o.QueryDeadline, 5*time.Second), upload: cmp.Or(o.MaxUpload, 1<<30), states: o.ConnState,
	}
	if s.actors == nil {
		s.actors = store
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.open, s.shut = context.WithCancel(s.ctx)
	return s
}

// serve begins to answer at ln.
func (s *Server) serve(ln net.Listener) {
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnState:         s.states,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
	}
	s.working.Go(func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin: the listener is of no use any more", slog.String("at", ln.Addr().String()), slog.Any("error", err))
		}
	})
}

// closing is how long Close waits for what is being done.
const closing = 5 * time.Second

// Close ends the Server: it takes nothing new, event streams end at once, and what isn't done in 5 seconds is given up. It returns when nothing uses the store any
// more: when what was given up has ended, too.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	s.shut()
	err := s.http.Shutdown(ctx)
	s.stop()
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	err = errors.Join(err, s.asked.Close(context.Background()))
	s.working.Wait()
	if err != nil {
		err = fmt.Errorf("admin: close: %w", err)
	}
	return err
}

// verbs are what can be done to an actor.
var verbs = []endpoint{
	PutKey, DeleteKeys, SetLabels, SetState, Migrate, SendMessage, DeleteMessages, RedriveMessages, CancelWorkflow, RetryWorkflow, RestartWorkflow, ReplayWorkflow, DiscardConnection,
	Disconnect, Wake, Sleep, Fork, Restore, Undo, Drop, RepairIndex,
}

// routes are what can be asked for.
func routes() []route {
	all := []route{
		documentRoute(), eventRoute(),
		{
			method: http.MethodGet, path: "/v1/process", what: "What is known of the process that has the store open.", out: Process{}, reads: true,
			serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
				_, host := s.actors.(Runner)
				reply(w, &Process{PID: os.Getpid(), Backup: archive.Of(s.store.Engine()) != nil, Host: host, Role: clientOf(r.Context()).role})
			},
		},
		{
			method: http.MethodGet, path: "/v1/metrics", what: "What the process counts, in the text format of Prometheus.", gives: "text/plain", reads: true,
			serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
				if s.metrics == nil {
					refuse(w, &Error{Code: "not_found", Message: "this process gives no metrics here"})
					return
				}
				s.metrics.ServeHTTP(w, r)
			},
		},
		{method: http.MethodGet, path: "/v1/engine", what: "Read the engine of the store.", protocol: engineProtocol, serve: (*Server).engine},
		{method: http.MethodGet, path: "/v1/actors/{actor}/sql", what: "Run SQL for a shell.", params: []param{createParam}, protocol: sqlProtocol, serve: (*Server).sql},
		{
			method: http.MethodPut, path: "/v1/actors/{actor}/database", what: "Make an SQLite file the database of an actor.", params: []param{createParam},
			takes: mediaDatabase, out: None{}, serve: (*Server).putDatabase,
		},
	}
	for _, reads := range [][]route{
		actorReads(), keyReads(), stateReads(), queueReads(), connReads(), workflowReads(), traceReads(), sqlReads(), hostReads(), limitReads(), usageReads(), databaseReads(),
	} {
		all = append(all, reads...)
	}
	for _, v := range verbs {
		all = append(all, v.route())
	}
	return all
}

// handler answers all requests, until Close waits for those that are being answered.
func (s *Server) handler() http.Handler {
	mux := s.mux()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.asked.Enter() {
			refuse(w, say(errkind.ErrClosed, "this process is closing the store"))
			return
		}
		defer s.asked.Leave()
		mux.ServeHTTP(w, r)
	})
}

// mux answers requests by their paths.
func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.HandleFunc(rt.method+" "+rt.path, s.admit(rt.reads, func(w http.ResponseWriter, r *http.Request) { rt.serve(s, w, r) }))
	}
	nothing := s.admit(true, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &Error{Code: "not_found", Message: "there is nothing at " + r.Method + " " + r.URL.Path})
	})
	mux.HandleFunc("/v1/", nothing)
	if s.page != nil {
		mux.Handle("/", s.page)
	} else {
		mux.HandleFunc("/", nothing)
	}
	return mux
}

// A Process is what is known of a process that has a store open.
type Process struct {
	PID int `json:"pid"`
	// Backup reports whether the process backs up the store.
	Backup bool `json:"backup"`
	// Host reports whether the process runs the actors of the store.
	Host bool `json:"host"`
	// Role is what the client that asks may do.
	Role Role `json:"role"`
}

// engine gives a tool the engine of the store: all of it to read, and to write what belongs to none of the actors.
func (s *Server) engine(w http.ResponseWriter, r *http.Request) {
	s.upgrade(w, r, engineProtocol, func(conn net.Conn) { remotekv.Serve(s.ctx, conn, s.store.Engine(), actorstore.Outside) })
}

// upgrade has a connection speak a protocol that isn't HTTP, as long as fn runs, which closes it.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, protocol string, fn func(net.Conn)) {
	if r.Header.Get("Upgrade") != protocol {
		w.Header().Set("Upgrade", protocol)
		refuse(w, &Error{Code: "upgrade_required", Message: "this process speaks " + protocol + ": use the same version of greenroom"})
		return
	}
	s.working.Add(1) // while the request is being answered, and Close waits for that
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.working.Done()
		refuse(w, err)
		return
	}
	go func() {
		defer s.working.Done()
		head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
		if _, err := conn.Write([]byte(head)); err != nil {
			_ = conn.Close() // the tool has gone
			return
		}
		fn(conn)
	}()
}

// sql runs SQL for a shell.
func (s *Server) sql(w http.ResponseWriter, r *http.Request) {
	actor, create := r.PathValue("actor"), r.URL.Query().Get("create") == "true"
	log := s.log.With(slog.String("verb", "sql"), slog.String("actor", actor), slog.String("by", clientOf(r.Context()).name))
	s.upgrade(w, r, sqlProtocol, func(conn net.Conn) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		defer conn.Close()
		c := &sqlConn{Server: s, actor: actor, create: create, conn: conn, out: gob.NewEncoder(conn), requests: make(chan sqlRequest)}
		log.Info("admin: begin")
		s.working.Go(func() {
			c.read(ctx, gob.NewDecoder(conn))
			cancel()
		})
		c.serve(ctx)
		log.Info("admin: done")
	})
}

// putDatabase makes the body the database of an actor.
func (s *Server) putDatabase(w http.ResponseWriter, r *http.Request) {
	actor, create := r.PathValue("actor"), r.URL.Query().Get("create") == "true"
	// It is here before the actor is disturbed.
	file, err := receive(http.MaxBytesReader(w, r.Body, s.upload))
	if err != nil {
		refuse(w, err)
		return
	}
	defer os.Remove(file)
	src, err := sqlrun.OpenSource(file)
	if err != nil {
		refuse(w, err)
		return
	}
	defer src.Close() // nothing was written
	err = s.audited(r, "database", actor, func(ctx context.Context) error {
		return s.visit(ctx, actor, create, func(ctx context.Context, a *greenroom.Actor) error {
			t, err := sqlrun.Open(ctx, a.SQL())
			if err == nil {
				err = t.Replace(ctx, src)
			}
			return errors.Join(err, t.Close())
		})
	})
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, &None{})
}

// receive stores a body in a file, which is its owner's alone. The caller removes it.
func receive(body io.Reader) (name string, err error) {
	f, err := os.CreateTemp("", "greenroom-import-*.db")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, body)
	if most := (*http.MaxBytesError)(nil); errors.As(err, &most) {
		err = say(errkind.ErrTooLarge, "the database has more than %d bytes, which is the most that this process takes", most.Limit)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
