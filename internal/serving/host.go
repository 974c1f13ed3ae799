package serving

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/metrics/prom"
)

// DefaultMinFree is how much of its disk a store keeps free.
const DefaultMinFree ByteSize = 64 << 20

// hostFlags are what greenroom host is told.
type hostFlags struct {
	listen    string
	tokenFile string
	origins   []string
	names     []string
	awake     int
	mailbox   int
	idle      time.Duration
	away      time.Duration
	drain     time.Duration
	minFree   ByteSize
	traces    bool
	verbose   bool
	jwt       jwtFlags
	logFormat string
	logCalls  bool
	fleet     FleetFlags
	tls       TLSFlags
	admin     AdminFlags
	backup    BackupFlags
}

// A Hosted is what a host serves.
type Hosted struct {
	Types []*host.Type
	Pages http.Handler
	// Announce writes what can be tried, at the URLs that begin with at and with that header for curl, which is "" where no token is needed; nil for nothing.
	Announce func(w io.Writer, at, header string)
	// Temporary makes a store for a call without one, which remove removes; nil refuses that.
	Temporary func() (url string, remove func() error, err error)
	// Opened is called when the host is open, and what it returns before the host is closed; nil for nothing.
	Opened func(ctx context.Context, h *host.Host, sink *prom.Sink, log *slog.Logger) (stop func())
	// Close is called when the host is closed; nil for nothing.
	Close func() error
}

// A HostCommand is how a program serves a host.
type HostCommand struct {
	Use, Short, Example string
	// Help is said in the help behind what all hosts have in common: an empty line and some more, or nothing.
	Help   string
	Limits batch.Limits // of the actors; zero: the default
	// Authorize is front.Options.Authorize, nil for none.
	Authorize func(ctx context.Context, r *http.Request, a *front.Access) (*host.Caller, error)
	// Prepare returns what is to be served, also with an error what of it is to be closed. It is called once the flags are known, and before anything is
	// made or listened to.
	Prepare func(ctx context.Context) (*Hosted, error)
}

// Command returns the command, which serves until its context ends.
func (c *HostCommand) Command() *cobra.Command {
	f := &hostFlags{}
	cmd := &cobra.Command{
		Use:   c.Use,
		Short: c.Short,
		Long: `Serve the actors of a store: actions over HTTP, with JSON or CBOR, and connections and
events over WebSockets; see docs/front.md. The store is created if it isn't there, and is
this process's until it ends, but for one in PostgreSQL, which several may serve.

` + c.Help + `It listens on loopback, where no token is needed: anybody on this machine may use it. To
listen elsewhere takes a token file, of lines with a token each, at least 16 characters
long; lines that begin with # are left out. It speaks TLS with --tls-cert and --tls-key.

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

` + BackupFlagsHelp + `

` + AdminHelp,
		Example: c.Example,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return serveHost(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), c, f, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:6420", "`address` and port; port 0 takes any that is free")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` of the tokens, one of which every request must have")
	PageFlags(flags, &f.origins, &f.names)
	flags.IntVar(&f.awake, "awake", host.DefaultMaxAwake, "how many actors may be in memory")
	flags.IntVar(&f.mailbox, "mailbox", 0, "how many turns may wait for one actor, and more are refused (overloaded); 0 means 64")
	flags.DurationVar(&f.idle, "idle", host.DefaultIdleTimeout, "how long an actor without anything to do stays there")
	flags.DurationVar(&f.away, "away", host.DefaultAwayTimeout, "how long a client may be away before it is disconnected")
	flags.DurationVar(&f.drain, "drain", 15*time.Second, "how long the end may take")
	f.minFree = DefaultMinFree
	flags.Var(&f.minFree, "min-free", "how much of the disk stays free: with less, calls that write are refused")
	flags.BoolVar(&f.traces, "traces", true, "record every turn as a span in its actor's keys, for greenroom traces")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log what clients are refused, too")
	flags.StringVar(&f.logFormat, "log-format", "text", "the `form` of the log's lines: text or json")
	flags.BoolVar(&f.logCalls, "log-calls", false, "log a line for each call, with its trace")
	f.jwt.flags(cmd)
	f.tls.Flags(cmd)
	f.fleet.Flags(cmd)
	flags.StringVar(&f.fleet.Place, "place", "hash", "`where` an actor goes that no host has: hash, for the one that all agree on, or here")
	f.admin.Flags(cmd)
	f.backup.Flags(cmd)
	return cmd
}

// serveHost serves until ctx ends.
func serveHost(ctx context.Context, stdout, stderr io.Writer, c *HostCommand, f *hostFlags, args []string) (err error) {
	if f.drain < 0 || f.awake < 0 || f.mailbox < 0 {
		return Usage("--drain, --awake and --mailbox are not negative")
	}
	if err := f.jwt.check(); err != nil {
		return err
	}
	if c.Authorize != nil && f.jwt.jwks != "" {
		return Usage("--jwks is not for this program, which decides by itself on its callers")
	}
	tokens, err := f.tokens(c.Authorize != nil)
	if err != nil {
		return err
	}
	log, err := f.logger(stderr)
	if err != nil {
		return err
	}
	if err := errors.Join(f.tls.Check(), f.fleet.Check()); err != nil {
		return err
	}
	api, err := f.admin.Server(log)
	if err != nil {
		return err
	}
	// Types are named, and demands refused, before anything is created.
	hosted, err := c.Prepare(ctx)
	if hosted != nil && hosted.Close != nil {
		defer func() { err = errors.Join(err, hosted.Close()) }()
	}
	if err != nil {
		return err
	}
	verifier, err := f.jwt.verifier(ctx, log)
	if err != nil {
		return err
	}
	if verifier != nil {
		defer verifier.Close()
	}
	url, remove, err := hosted.store(args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	ln, err := Listen(ctx, f.listen, false)
	if err != nil {
		return err
	}
	defer ln.Close() // again, unless it was never served
	served, err := f.tls.Listen(ln, log)
	if err != nil {
		return err
	}
	s := &hostServer{command: c, flags: f, url: url, tokens: tokens, hosted: hosted, listener: served, limit: ln, out: stdout, log: log, admin: api, verifier: verifier}
	registry, err := s.measure()
	if err != nil {
		return err
	}
	err = WithStore(ctx, url, greenroom.Options{MinFree: int64(s.flags.minFree), Limits: c.Limits, Logger: s.log, Metrics: s.sink}, func(st *storeurl.Store) error {
		return s.serve(ctx, st, registry)
	})
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // to be ended is how it ends
	}
	return err
}

// store returns the store that is served, and what is called behind that.
func (h *Hosted) store(args []string) (url string, remove func() error, err error) {
	switch {
	case len(args) > 0:
		return args[0], func() error { return nil }, nil
	case h.Temporary == nil:
		return "", nil, Usage("STORE is missing")
	}
	return h.Temporary()
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
	return nil, Usage("--log-format is text or json, not " + f.logFormat)
}

// tracesBytes bounds the space of an actor's spans: those of every turn are kept, even if
// they are never read.
const tracesBytes = 4 << 20

// hostOptions returns the options of the host.
func (s *hostServer) hostOptions(peers *fleet.Fleet) (*host.Options, error) {
	limits, err := envlimits.Apply(s.command.Limits)
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
		Mailbox:     s.flags.mailbox,
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
		Tokens: s.tokens, WithoutToken: len(s.tokens) == 0 && s.command.Authorize == nil, Secret: secret,
		Origins: s.flags.origins, Hosts: s.flags.names,
		MetricsPage: s.page, Logger: s.log, Metrics: s.sink, Degraded: s.backup.degraded, LogCalls: s.flags.logCalls,
		Pages: s.hosted.Pages, Authorize: s.command.Authorize,
	}
	authorize(s.verifier, s.hosted.Types, o)
	return o
}

// Address returns how the listener is reached.
func (s *hostServer) address() string { return s.flags.tls.Address(s.listener) }
