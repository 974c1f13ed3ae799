package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/host/front/jwt"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/metrics/prom"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// A hostServer is a host with its front, while it is served.
type hostServer struct {
	command  *HostCommand
	flags    *hostFlags
	url      string
	tokens   []string
	hosted   *Hosted
	admin    *adminServer
	listener net.Listener // that is served
	limit    net.Listener // below it
	out      io.Writer
	log      *slog.Logger
	sink     *prom.Sink
	verifier *jwt.Verifier // of callers; nil for none
	page     http.Handler  // of the metrics
	backup   *runningBackup
}

// serve opens the host, serves it until ctx ends, and closes it.
func (s *hostServer) serve(ctx context.Context, store *storeurl.Store, registry *prometheus.Registry) (err error) {
	among, err := s.flags.fleet.Options(store.Engine(), s.address(), &s.flags.tls, s.log)
	if err != nil {
		return err
	}
	var peers *fleet.Fleet
	if among != nil {
		if peers, err = fleet.Open(ctx, store.Engine(), among); err != nil {
			return fmt.Errorf("greenroom: %w", err)
		}
		defer peers.Close()
	}
	opts, err := s.hostOptions(peers)
	if err != nil {
		return err
	}
	s.backup, err = s.flags.backup.Begin(store, s.url, s.log, s.sink)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.flags.drain)
		defer cancel()
		s.backup.End(end, s.log)
	}()
	h, err := host.Open(ctx, store.Engine(), s.hosted.Types, opts)
	if err != nil {
		return err
	}
	defer func() {
		// What was asked is done by now, unless that took too long: then this must not.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.flags.drain)
		defer cancel()
		err = errors.Join(err, h.Close(end))
	}()
	if s.hosted.Opened != nil {
		defer s.hosted.Opened(ctx, h, s.sink, s.log)()
	}
	if err := errors.Join(watchStats(registry, h, store.Engine()), s.backup.watch(registry)); err != nil {
		return err
	}
	s.admin.Opts.Actors, s.admin.Opts.Metrics, s.admin.Owner = h, s.page, h.Store().Lower()
	end, err := s.admin.Listen(ctx, store, s.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	secret, err := front.StoredSecret(ctx, store.Engine())
	if err != nil {
		return err
	}
	o := s.frontOptions(secret)
	o.Fleet = peers
	f, err := front.New(h, o)
	if err != nil {
		return err
	}
	server := &Service{
		Server: f.Server(), Listener: s.listener, Limit: s.limit, Log: s.log, Drain: s.flags.drain,
		Announce: func() error { return s.announce(h) },
		Failed:   h.Failed(), Why: h.Ready, Shutdown: f.Shutdown,
	}
	if peers != nil {
		server.handOver = func(ctx context.Context) error {
			f.Leave()
			return h.HandOver(ctx)
		}
	}
	return server.Run(ctx)
}

// measure prepares the metrics, those of the store included, so it comes before that is opened.
func (s *hostServer) measure() (*prometheus.Registry, error) {
	var err error
	s.sink, err = prom.New(slices.Concat(host.Metrics(s.hosted.Types...), front.Metrics(), vfs.Metrics(), queue.Metrics(), workflow.Metrics(), conn.Metrics(), persist.Metrics(), traces.Metrics(), archive.Metrics(), storeurl.Metrics())...)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	err = errors.Join(registry.Register(s.sink),
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	s.page = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return registry, err
}

// watchStats adds what a host does at the moment, and what room its store has.
func watchStats(registry *prometheus.Registry, h *host.Host, engine kv.Engine) error {
	var err error
	for _, g := range []struct {
		name, help string
		of         func(host.Stats) int
	}{
		{"actors_awake", "Actors in memory", func(s host.Stats) int { return s.Awake }},
		{"actors_idle", "Actors in memory that have nothing to do", func(s host.Stats) int { return s.Idle }},
		{"calls_waiting", "Calls that wait until there is room for one more actor", func(s host.Stats) int { return s.Waiting }},
		{"alarms", "Sleeping actors that are to be woken at some time", func(s host.Stats) int { return s.Alarms }},
	} {
		err = errors.Join(err, registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "greenroom", Subsystem: "host", Name: g.name, Help: g.help},
			func() float64 { return float64(g.of(h.Stats())) })))
	}
	for what, o := range map[string]greenroom.ActorsOptions{"stuck": {Stuck: true}, "failed": {Workflow: []string{workflow.Failed.String()}}} {
		err = errors.Join(err, registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "greenroom", Subsystem: "store", Name: "workflows", ConstLabels: prometheus.Labels{"is": what},
				Help: fmt.Sprintf("Workflows that are stuck or have failed, %d at most of each, -1 while that can't be told", maxCounted)},
			func() float64 { return countActors(h.Store(), o) })))
	}
	if db, ok := engine.(*pebblekv.DB); ok {
		err = errors.Join(err, registry.Register(folderStats{db}))
	}
	if _, known, ferr := kv.FreeSpace(engine); known && ferr == nil {
		err = errors.Join(err, registry.Register(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "greenroom", Subsystem: "store", Name: "free_bytes", Help: "Bytes that the disk of the store has free, -1 while that can't be told"},
			func() float64 {
				if free, known, err := kv.FreeSpace(engine); known && err == nil {
					return float64(free)
				}
				return -1
			})))
	}
	return err
}

// maxCounted bounds how many actors a metric counts.
const maxCounted = 1000

// countActors returns how many actors o finds, maxCounted at most, and -1 if that can't be told.
func countActors(s *greenroom.Store, o greenroom.ActorsOptions) (n float64) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	o.Limit = maxCounted
	for _, err := range s.Actors(ctx, &o) {
		if err != nil {
			return -1
		}
		n++
	}
	return n
}

// announce says where the host is, and what can be tried.
func (s *hostServer) announce(h *host.Host) error {
	var b strings.Builder
	at := s.address()
	fmt.Fprintf(&b, "serving %s at %s\n", strings.Join(h.Types(), ", "), at)
	header := `-H "Authorization: Bearer $TOKEN" `
	switch {
	case s.command.Authorize != nil:
		fmt.Fprintln(&b, "the program decides on each caller")
	case s.verifier != nil:
		fmt.Fprintf(&b, "a token is needed: put a JSON Web Token of %s into $TOKEN\n", s.flags.jwt.issuer)
	case len(s.tokens) == 0:
		fmt.Fprintln(&b, "no token is needed: anybody on this machine may use it")
		header = ""
	default:
		fmt.Fprintln(&b, "a token is needed: put one of the token file into $TOKEN")
	}
	if s.hosted.Announce != nil {
		s.hosted.Announce(&b, at, header)
	}
	fmt.Fprintln(&b, s.admin.At+"end it with Ctrl-C")
	_, err := io.WriteString(s.out, b.String())
	return err
}
