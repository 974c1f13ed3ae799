package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
)

// engineFlags are what greenroom engine is told.
type engineFlags struct {
	listen     string
	runnerFile string
	clientFile string
	origins    []string
	names      []string
	drain      time.Duration
	memory     serving.ByteSize
	minFree    serving.ByteSize
	verbose    bool
	fleet      serving.FleetFlags
	tls        serving.TLSFlags
	admin      serving.AdminFlags
	backup     serving.BackupFlags
}

// engineStore is the store of an engine that is told no other one.
const engineStore = "greenroom.store"

func newEngine(e *env) *cobra.Command {
	f := &engineFlags{memory: 1 << 30, minFree: serving.DefaultMinFree, fleet: serving.FleetFlags{Place: "here"}}
	cmd := &cobra.Command{
		Use:   "engine [STORE]",
		Short: "Run the actors of RivetKit programs",
		Long: `Serve as the engine of RivetKit programs, 2.0.33 to 2.3.19: a program that is started with
RIVET_ENDPOINT=http://127.0.0.1:6420 connects to it, and keeps everything that its actors
store here: their state, their SQLite databases, queues, workflows and traces. All other
commands read them. See docs/rivetkit.md.

STORE is created if it isn't there; without it the store is ` + engineStore + `, in the working
directory. It is this process's until it ends, but for one in PostgreSQL, which several
processes may serve. When the store has failed for good, as on a disk that is broken, it
ends with status 3, for a supervisor to start it again. While the disk has less than
--min-free, what actors store is refused, and reads go on; that heals when there is room.

It listens on loopback, where no token is needed. To listen elsewhere takes a file with the
tokens of runners, which open everything, and may take one with those of clients: lines with
a token each, at least 16 characters long; lines that begin with # are left out. It speaks TLS
with --tls-cert and --tls-key, or behind a proxy.

On an interrupt or SIGTERM it takes nothing new, lets all actors sleep, and ends. What hasn't
ended within --drain is cut off. An actor that doesn't sleep in time runs on in its program,
as all do when the engine is killed: the next engine takes it over, if it is there within 15
seconds. Clients reconnect.

What clients send and are sent has half of --memory, and one address a quarter of that half;
more has to wait. Without GOMEMLIMIT in the environment the garbage collector keeps the
whole process near --memory.

` + serving.EngineFleetHelp + `

` + serving.BackupFlagsHelp + `

` + serving.AdminHelp,
		Example: `  greenroom engine data
  RIVET_ENDPOINT=http://127.0.0.1:6420 node app.js`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := engineStore
			if len(args) > 0 {
				url = args[0]
			}
			return serveEngine(cmd.Context(), e, f, url)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:6420", "`address` and port; port 0 takes any that is free")
	flags.StringVar(&f.runnerFile, "runner-tokens", "", "`file` of the tokens with which runners connect")
	flags.StringVar(&f.clientFile, "client-tokens", "", "`file` of the tokens of clients")
	serving.PageFlags(flags, &f.origins, &f.names)
	flags.DurationVar(&f.drain, "drain", 15*time.Second, "how long actors may take to sleep, and requests to end")
	flags.Var(&f.memory, "memory", "about how much memory the process may have, such as 512MiB or 4GiB")
	flags.Var(&f.minFree, "min-free", "how much of the disk stays free: with less, what is to be stored is refused")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log more")
	f.tls.Flags(cmd)
	f.fleet.Flags(cmd)
	f.admin.Flags(cmd)
	f.backup.Flags(cmd)
	return cmd
}

// options returns the options of the engine. Where others than this machine get there are tokens.
func (f *engineFlags) options(log *slog.Logger, store *actorstore.Options) (*engine.Options, error) {
	o := &engine.Options{Origins: f.origins, Hosts: f.names, Logger: log, Store: store, Version: version(), MaxSockets: serving.MaxFiles() / 8 * 3, Memory: int64(f.memory / 2)}
	var err error
	if f.runnerFile != "" {
		if o.RunnerTokens, err = serving.ReadTokens(f.runnerFile); err != nil {
			return nil, err
		}
	} else if near, err := serving.IsNear(f.listen); err != nil || !near {
		return nil, serving.Usage(fmt.Sprintf("to listen on %s takes --runner-tokens: others than this machine get there", f.listen))
	}
	if f.clientFile != "" {
		if f.runnerFile == "" {
			return nil, serving.Usage("--client-tokens takes --runner-tokens too: no program could connect")
		}
		o.ClientTokens, err = serving.ReadTokens(f.clientFile)
	}
	return o, err
}

// buildIndex builds the index of actors of a store of before: where leases keep the engine's actors apart in the background, and else at once, before the engine
// has any. The caller calls end before it closes the store.
func buildIndex(ctx context.Context, st *storeurl.Store, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var building sync.WaitGroup
	build := func() {
		if err := st.BuildIndex(ctx); err != nil && ctx.Err() == nil {
			log.Warn("the index of actors isn't built; greenroom check --repair builds it", slog.Any("error", err))
		}
	}
	if kv.Shared(st.Engine()) == nil {
		building.Go(build)
	} else {
		build()
	}
	return func() {
		cancel()
		building.Wait()
	}
}

// serveEngine serves until ctx ends.
func serveEngine(ctx context.Context, e *env, f *engineFlags, url string) error {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))
	limits, err := envlimits.Apply(e.limits)
	if err != nil {
		return err
	}
	opts, err := f.options(log, &actorstore.Options{Limits: limits})
	if err == nil {
		err = errors.Join(f.tls.Check(), f.fleet.Check())
	}
	if err != nil {
		return err
	}
	api, err := f.admin.Server(log)
	if err != nil {
		return err
	}
	ln, err := serving.Listen(ctx, f.listen, true)
	if err != nil {
		return err
	}
	defer ln.Close() // again, unless it was never served
	served, err := f.tls.Listen(ln, log)
	if err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(f.memory))
	}
	err = serving.WithStore(ctx, url, greenroom.Options{MinFree: int64(f.minFree), Limits: e.limits, Logger: log}, func(st *storeurl.Store) (err error) {
		defer buildIndex(ctx, st, log)()
		saved, err := f.backup.Begin(st, url, log, nil)
		if err != nil {
			return err
		}
		defer func() {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
			defer cancel()
			saved.End(end, log)
		}()
		among, err := f.fleet.Options(st.Engine(), f.tls.Address(ln), &f.tls, log)
		if err != nil {
			return err
		}
		if among != nil {
			opts.Peers = &engine.Peers{Address: among.Address, Insecure: among.Insecure, TLS: among.TLS}
		}
		en, err := engine.Open(ctx, st.Engine(), opts)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, en.Close()) }()
		api.Owner, api.Opts.Actors = en, engineActors{st.Store, en}
		end, err := api.Listen(ctx, st, url)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		server := engineService(en, st.Engine(), log)
		server.Listener, server.Limit, server.Drain = served, ln, f.drain
		server.Announce = func() error {
			_, err := fmt.Fprintf(e.stdout, "serving at %s\n%send it with Ctrl-C\n", f.tls.Address(ln), api.At)
			return err
		}
		return server.Run(ctx)
	})
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // to be ended is how it ends
	}
	return err
}

// engineService returns the service of an engine on a store, which listens nowhere yet.
func engineService(en *engine.Engine, store kv.Engine, log *slog.Logger) *serving.Service {
	return &serving.Service{
		Server: &http.Server{
			Handler: en, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		Log:    log,
		Failed: kv.Failed(store),
		Why: func(ctx context.Context) error {
			_, err := store.Get(ctx, nil, nil)
			return err
		},
		Shutdown: func(ctx context.Context) error {
			select {
			case <-kv.Failed(store): // nothing more is stored
				return en.Close()
			default:
				return en.Shutdown(ctx)
			}
		},
	}
}

// engineActors are the actors of a store beside an engine of RivetKit programs, which keeps those for itself that are awake.
type engineActors struct {
	store  *greenroom.Store
	engine *engine.Engine
}

var _ interface {
	admin.Actors
	admin.Metered
} = engineActors{}

// Visit implements admin.Actors.
func (a engineActors) Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *greenroom.Actor) error) error {
	return a.engine.Apart(ctx, id, func() error { return a.store.Visit(ctx, id, fn) })
}

// DropID implements admin.Actors.
func (a engineActors) DropID(ctx context.Context, id actorstore.ID) error {
	return a.engine.Apart(ctx, id, func() error { return a.store.DropID(ctx, id) })
}

// Usage implements admin.Metered.
func (a engineActors) Usage() []actorstore.ActorUsage { return a.engine.Usage() }

// RestoreID implements admin.Actors.
func (a engineActors) RestoreID(ctx context.Context, id actorstore.ID, to archive.Bookmark, opts *greenroom.RestoreOptions) (r *greenroom.Restored, err error) {
	restore := func() (err error) {
		r, err = a.store.RestoreID(ctx, id, to, opts)
		return err
	}
	err = a.engine.Apart(ctx, id, restore)
	if errors.Is(err, actorstore.ErrUnknownActor) { // it was dropped
		err = restore()
	}
	return r, err
}

// version is what the Go tool recorded about the source.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
