package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/examples/chat"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// defaultMinFree is how much of its disk a store keeps free.
const defaultMinFree byteSize = 64 << 20

// hostFlags are what greenroom host is told.
type hostFlags struct {
	listen    string
	tokenFile string
	origins   []string
	names     []string
	awake     int
	idle      time.Duration
	away      time.Duration
	drain     time.Duration
	minFree   byteSize
	traces    bool
	verbose   bool
	demo      bool
	wasm      wasmTypes
	jwt       jwtFlags
	logFormat string
	logCalls  bool
	fleet     fleetFlags
	tls       tlsFlags
	admin     adminFlags
	backup    backupFlags
}

func newHost(e *env) *cobra.Command {
	f := &hostFlags{}
	cmd := &cobra.Command{
		Use:   "host [STORE]",
		Short: "Serve actors over HTTP and WebSockets",
		Long: `Serve the actors of a store: actions over HTTP, with JSON or CBOR, and connections and
events over WebSockets; see docs/front.md. The store is created if it isn't there, and is
this process's until it ends, but for one in PostgreSQL, which several may serve.

--demo serves the types counter and chat, and a page to chat at /. It needs no STORE:
without one it has a store that is removed when it ends.

It listens on loopback, where no token is needed: anybody on this machine may use it. To
listen elsewhere takes a token file, of lines with a token each, at least 16 characters
long; lines that begin with # are left out. There is no TLS: that is for a proxy.

--jwks lets in the callers with a JSON Web Token of an issuer, also elsewhere: the actors
know the caller, and the token must be for --jwt-audience. A token of the token file opens
everything beside it.

SIGTERM and Ctrl-C end it cleanly: it takes nothing new, answers what it was asked and
puts its actors to sleep. It ends in the same way, but with status 3, when the store has
failed for good, as on a disk that is broken: /healthz says so meanwhile, and a supervisor
should start it again. What was acknowledged is stored.

On a full disk calls that write are refused (no_space), and those that read go on.
While the disk has less than --min-free they are refused before, and /readyz fails: the store
needs that room to tidy up. All heals when there is room.

` + fleetHelp + `

` + backupFlagsHelp + `

` + adminHelp,
		Example: `  greenroom host --demo
  greenroom host data --demo --listen 0.0.0.0:6420 --token-file tokens`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return serveHost(cmd.Context(), e, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:6420", "`address` and port; port 0 takes any that is free")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` of the tokens, one of which every request must have")
	flags.StringArrayVar(&f.origins, "origin", nil, "`origin` whose pages may come from elsewhere (may be repeated)")
	flags.StringArrayVar(&f.names, "name", nil, "`host` name by which this server may be addressed; default any, or loopback's (may be repeated)")
	flags.IntVar(&f.awake, "awake", host.DefaultMaxAwake, "how many actors may be in memory")
	flags.DurationVar(&f.idle, "idle", host.DefaultIdleTimeout, "how long an actor without anything to do stays there")
	flags.DurationVar(&f.away, "away", host.DefaultAwayTimeout, "how long a client may be away before it is disconnected")
	flags.DurationVar(&f.drain, "drain", 15*time.Second, "how long the end may take")
	f.minFree = defaultMinFree
	flags.Var(&f.minFree, "min-free", "how much of the disk stays free: with less, calls that write are refused")
	flags.BoolVar(&f.traces, "traces", true, "record every turn as a span in its actor's keys, for greenroom traces")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log what clients are refused, too")
	flags.BoolVar(&f.demo, "demo", false, "serve counters, chat rooms and a page to chat")
	flags.StringVar(&f.logFormat, "log-format", "text", "the `form` of the log's lines: text or json")
	flags.BoolVar(&f.logCalls, "log-calls", false, "log a line for each call, with its trace")
	f.wasm.flags(cmd)
	f.jwt.flags(cmd)
	f.tls.flags(cmd)
	f.fleet.flags(cmd)
	flags.StringVar(&f.fleet.place, "place", "hash", "`where` an actor goes that no host has: hash, for the one that all agree on, or here")
	f.admin.flags(cmd)
	f.backup.flags(cmd)
	return cmd
}

// serveHost serves until ctx ends.
func serveHost(ctx context.Context, e *env, f *hostFlags, args []string) (err error) {
	if err := f.jwt.check(); err != nil {
		return err
	}
	tokens, err := f.tokens()
	if err != nil {
		return err
	}
	log, err := f.logger(e.stderr)
	if err != nil {
		return err
	}
	if err := errors.Join(f.tls.check(), f.fleet.check()); err != nil {
		return err
	}
	api, err := f.admin.server(log)
	if err != nil {
		return err
	}
	// Types are named, and demands refused, before anything is created.
	types, modules, err := f.types(ctx)
	defer func() { err = errors.Join(err, modules.Close()) }()
	if err != nil {
		return err
	}
	var url string
	verifier, err := f.jwt.verifier(ctx, log)
	if err != nil {
		return err
	}
	if verifier != nil {
		defer verifier.Close()
	}
	switch {
	case len(args) > 0:
		url = args[0]
	case !f.demo:
		return &usageError{"STORE is missing: only --demo does without one"}
	default:
		dir, err := os.MkdirTemp("", "greenroom-demo-")
		if err != nil {
			return err
		}
		url = "pebble:" + dir
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	ln, err := listen(ctx, f.listen, false)
	if err != nil {
		return err
	}
	defer ln.Close() // again, unless it was never served
	served, err := f.tls.listen(ln, log)
	if err != nil {
		return err
	}
	s := &hostServer{flags: f, url: url, tokens: tokens, types: types, modules: modules, listener: served, limit: ln, out: e.stdout, log: log, admin: api, verifier: verifier}
	registry, err := s.measure()
	if err != nil {
		return err
	}
	err = withStore(ctx, url, greenroom.Options{MinFree: int64(s.flags.minFree), Limits: e.limits, Logger: s.log, Metrics: s.sink}, func(st *storeurl.Store) error {
		return s.serve(ctx, st, registry, e.limits)
	})
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // to be ended is how it ends
	}
	return err
}

// logger returns the log.
func (f *hostFlags) logger(w io.Writer) (*slog.Logger, error) {
	o := &slog.HandlerOptions{}
	if f.verbose {
		o.Level = slog.LevelDebug
	}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, &usageError{"--log-format is text or json, not " + f.logFormat}
}

// types returns the types that the flags ask for, and what of them is to be closed after the
// host, also if there is an error.
func (f *hostFlags) types(ctx context.Context) ([]*host.Type, *modules, error) {
	types, ms, err := f.wasm.types(ctx)
	if f.demo {
		types = append(types, demoTypes()...)
	}
	if err == nil && len(types) == 0 {
		err = &usageError{"there is nothing to serve: --wasm NAME=FILE serves a module, --demo an example"}
	}
	return types, ms, err
}

// tracesBytes bounds the space of an actor's spans: those of every turn are kept, even if
// they are never read.
const tracesBytes = 4 << 20

// hostOptions returns the options of the host.
func (s *hostServer) hostOptions(limits batch.Limits, peers *fleet.Fleet) (*host.Options, error) {
	limits, err := envlimits.Apply(limits)
	if err != nil {
		return nil, err
	}
	var spans *greenroom.TracesOptions
	if s.flags.traces {
		spans = &greenroom.TracesOptions{MaxBytes: tracesBytes}
	}
	o := &host.Options{
		Traces:      spans,
		Store:       &greenroom.Options{Limits: limits},
		MaxAwake:    s.flags.awake,
		IdleTimeout: s.flags.idle,
		AwayTimeout: s.flags.away,
		Logger:      s.log,
		Metrics:     s.sink,
	}
	if peers != nil {
		o.Peers = peers.Peers()
	}
	return o, nil
}

// frontOptions returns the options of the front.
func (s *hostServer) frontOptions(secret []byte) *front.Options {
	o := &front.Options{
		Tokens: s.tokens, WithoutToken: len(s.tokens) == 0, Secret: secret,
		Origins: s.flags.origins, Hosts: s.flags.names,
		MetricsPage: s.page, Logger: s.log, Metrics: s.sink, Degraded: s.backup.degraded, LogCalls: s.flags.logCalls,
	}
	if s.flags.demo {
		o.Pages = chat.Page()
	}
	authorize(s.verifier, s.types, o)
	return o
}

// address returns how the listener is reached.
func (s *hostServer) address() string { return s.flags.tls.address(s.listener) }
