package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// Libraries and servers for durable queues and workflows, which bench/peers/products calls.
const (
	goqite     = "goqite"        // a queue in a SQLite file
	river      = "river"         // a queue in PostgreSQL
	dbosSQLite = "dbos-sqlite"   // workflows in a SQLite file
	dbos       = "dbos-postgres" // workflows in PostgreSQL
	restate    = "restate"       // a server of workflows
)

// A durableWork is the work of so many callers at once.
type durableWork struct{ callers int }

// peer is a peer of the work.
func (l durableWork) peer(name string) peer {
	opens := map[string]func(s *stand) (place, settings string){
		goqite: func(s *stand) (place, settings string) {
			dir, _ := peersDir()
			module := exec.CommandContext(s.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "maragu.dev/goqite")
			module.Dir = filepath.Join(dir, "products")
			schema := filepath.Join(strings.TrimSpace(string(must(module.Output()))), "schema_sqlite.sql")
			return filepath.Join(must(filepath.Abs(s.dir)), "db") + "," + schema, "synchronous=FULL"
		},
		river: func(s *stand) (place, settings string) { return l.server(s), "fsync=on, synchronous_commit=on" },
		dbos:  func(s *stand) (place, settings string) { return l.server(s), "fsync=on, synchronous_commit=on" },
		dbosSQLite: func(s *stand) (place, settings string) {
			return "sqlite:" + filepath.Join(must(filepath.Abs(s.dir)), "db"), "synchronous=NORMAL"
		},
		restate: l.restate,
	}
	return peer{name, 0, withPeers, func(s *stand) {
		dir, _ := peersDir()
		program := build(s, filepath.Join(dir, "products"))
		place, settings := opens[name](s)
		s.processes.settings = settings
		kind, _, _ := strings.Cut(name, "-")
		s.processes.ask(s, exec.Command(program, kind, place, strconv.Itoa(l.callers)))
		check(s.do(1)) // it takes until all have begun
	}}
}

// server starts a PostgreSQL server for the side, and returns its address.
func (l durableWork) server(s *stand) string {
	server, err := openServer("", "")
	if err != nil {
		check(fmt.Errorf("%w: %w", errBuild, err))
	}
	s.end(server.stop)
	pid, _, _ := strings.Cut(string(must(os.ReadFile(filepath.Join(server.node.Dir, "postmaster.pid")))), "\n")
	s.processes.ids = append(s.processes.ids, must(strconv.Atoi(pid)))
	s.server = server
	return server.url
}

// restate starts a Restate server.
func (l durableWork) restate(s *stand) (place, settings string) {
	dir, _ := peersDir()
	packages := npm{s.ctx, s.bin}.packages(filepath.Join(dir, restate))
	ingress, admin, node := freeAddress(), freeAddress(), freeAddress()
	cmd := exec.Command(filepath.Join(packages, "node_modules", "@restatedev", "restate-server-linux-x64", "bin", "restate-server"),
		"--no-logo", "--base-dir", must(filepath.Abs(filepath.Join(s.dir, "data"))), "--listen-mode", "tcp", "--bind-address", node, "--advertised-address", "http://"+node)
	cmd.Env = append(os.Environ(), "RESTATE_INGRESS__BIND_ADDRESS="+ingress, "RESTATE_ADMIN__BIND_ADDRESS="+admin, "RESTATE_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=1")
	s.processes.serve(s, cmd, ingress, admin, node)
	return strings.Join([]string{ingress, admin, freeAddress()}, ","), "rocksdb-disable-wal-fsync=false"
}

// on returns what opens the work on an engine: Pebble, or PostgreSQL on a server of the side's own.
func (l durableWork) on(engine string, begin func(l durableWork, s *stand) (operations []func() error)) func(*stand) {
	return func(s *stand) {
		s.on = engine
		if engine == enginePostgres {
			l.server(s)
			s.processes.here = true
			s.url = s.server.newStore()
		}
		for _, operation := range begin(l, s) {
			s.workers = append(s.workers, repeat(operation))
		}
		check(together(s.workers, func(int) func() bool { return countdown(1) }))
	}
}

// cycle is a queue's by callers of one actor, and cycleEach by one of each of as many actors.
func (l durableWork) cycle(s *stand) []func() error { return l.cycles(s, 1) }

func (l durableWork) cycleEach(s *stand) []func() error { return l.cycles(s, l.callers) }

func (l durableWork) cycles(s *stand, actors int) (operations []func() error) {
	var queues []*queue.Queue
	for i := range actors {
		queues = append(queues, owned(s, must(queue.Open(s.ctx, s.actor(name(i)), &queue.Options{Env: part.Env{Logger: slog.New(slog.DiscardHandler)}}))))
	}
	for i := range l.callers {
		operations = append(operations, enqueueAndNext(s.ctx, queues[i%actors], inCBOR(noisy(i))))
	}
	return operations
}

// enqueueAndNext returns an operation that enqueues a message, and completes one and receives the
// next by one commit.
func enqueueAndNext(ctx context.Context, q *queue.Queue, body []byte) func() error {
	var m *queue.Message
	return func() (err error) {
		if _, err := q.Enqueue(ctx, queue.Send{Name: "job", Body: body}); err != nil {
			return err
		}
		m, err = q.Next(ctx, m, nil, nil)
		return err
	}
}

// workflows are of three steps, each in an actor that wasn't there before.
func (l durableWork) workflows(s *stand) (operations []func() error) {
	s.openStore()
	code := func(c *workflow.Context, in int) (int, error) {
		for _, name := range []string{"one", "two", "three"} {
			out, err := workflow.Step(c, name, func(context.Context) (int, error) { return in + 1, nil })
			if err != nil {
				return 0, err
			}
			in = out
		}
		return in, nil
	}
	opts := &workflow.Options{Env: part.Env{Logger: slog.New(slog.DiscardHandler)}}
	for i := range l.callers {
		n := 0
		operations = append(operations, func() error {
			n++
			return runWorkflow(s.ctx, s.store, fmt.Sprint("w", i, "-", n), code, opts)
		})
	}
	return operations
}

// runWorkflow runs a workflow in an actor of its own until its result.
func runWorkflow(ctx context.Context, store *actorstore.Store, name string, code func(*workflow.Context, int) (int, error), opts *workflow.Options) (err error) {
	a, err := store.Named(ctx, name, nil)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	w, err := workflow.Open(ctx, a, code, opts)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	got, err := w.Call(ctx, 1)
	if err == nil && got != 4 {
		err = fmt.Errorf("the result is %d", got)
	}
	return err
}
