package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/traces"
)

// otelNoop is the peer of traces/span: OpenTelemetry's SDK with an exporter that does
// nothing. It is a program of another module, bench/peers, so that nothing here links the
// SDK.
const otelNoop = "otel-noop-export"

// tracesLines is traces/span: a span with four attributes, an event and a status is started
// and ended; all are stored when a round ends. There is none where the peer's source isn't,
// or no Go to build it with: a program that was copied to another machine.
func tracesLines(engine string) []line {
	dir, ok := peersDir()
	if !ok {
		return nil
	}
	return []line{{
		"traces/span", "span/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) { return openTracer(ctx, at) }},
		side{otelNoop, func(ctx context.Context, at site) (runner, error) { return openPeer(ctx, at, dir, "otelnoop") }},
	}}
}

// peersDir returns the folder of the module bench/peers, seen from the root of the tree or
// from here.
func peersDir() (dir string, ok bool) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", false
	}
	for _, dir := range []string{filepath.Join("bench", "peers"), "peers"} {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
	}
	return "", false
}

// A tracer is an actor that records spans.
type tracer struct {
	engine *faultkv.Engine
	store  *actorstore.Store
	actor  *actorstore.Actor
	traces *traces.Traces
	next   int64
}

var _ runner = (*tracer)(nil)

func openTracer(ctx context.Context, at site) (r *tracer, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	r = &tracer{engine: faultkv.New(engine)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	limits := batch.DefaultLimits()
	limits.Storage = 1 << 40
	if r.store, err = actorstore.Open(ctx, r.engine, &actorstore.Options{Limits: limits}); err != nil {
		return nil, err
	}
	if r.actor, err = r.store.Named(ctx, "bench", nil); err != nil {
		return nil, err
	}
	r.traces, err = traces.Open(ctx, r.actor, &traces.Options{Logger: slog.New(slog.DiscardHandler)})
	return r, err
}

// mostPending is how many chunks may wait before the recording waits for them: an operation
// that the store can't keep up with must not count by being dropped.
const mostPending = 32

// checkEvery is after how many spans that is looked at: fewer than fill a chunk.
const checkEvery = 256

func (r *tracer) run(ctx context.Context, n int) error {
	for i := range n {
		r.record()
		if i%checkEvery == 0 && r.traces.Stats().Pending >= mostPending {
			if err := r.traces.Flush(ctx); err != nil {
				return err
			}
		}
	}
	err := r.traces.Flush(ctx)
	if s := r.traces.Stats(); err == nil && s.DroppedChunks+s.DroppedRecords+s.DroppedSpans > 0 {
		err = fmt.Errorf("%d records were dropped", s.DroppedRecords)
	}
	return err
}

// record records one span. bench/peers/otelnoop does the same, to the letter.
func (r *tracer) record() {
	i := r.next
	r.next++
	span := r.traces.Begin("actor.action.add", &traces.StartOptions{Kind: traces.KindServer, Attributes: []traces.Attr{
		traces.String("rivet.actor.id", "hodf9r0nebitxihti137r3va5c0000"),
		traces.String("rivet.action.name", "add"),
		traces.Int("rivet.queue.message_id", i),
		traces.Bool("rivet.action.scheduled", i%2 == 0),
	}})
	span.Event("queue.message.receive", traces.Float("rivet.queue.latency_ms", float64(i%1000)/8))
	span.SetStatus(traces.StatusOK, "")
	span.End()
}

func (r *tracer) counts() faultkv.Counts { return r.engine.Counts() }

func (r *tracer) close() error {
	var errs []error
	if r.traces != nil {
		errs = append(errs, r.traces.Close(context.Background()))
	}
	if r.actor != nil {
		errs = append(errs, r.actor.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(append(errs, r.engine.Close())...)
}

// A peer is a program that does the work of one side: it is told how many operations on its
// standard input, and answers when they are done.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

var _ runner = (*peer)(nil)

// openPeer builds a program of the module in dir and starts it.
func openPeer(ctx context.Context, at site, dir, name string) (p *peer, err error) {
	program, err := filepath.Abs(filepath.Join(at.dir, name))
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./"+name)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", filepath.Join(dir, name), err, out)
	}
	p = &peer{cmd: exec.Command(program)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

func (p *peer) run(_ context.Context, n int) error {
	if _, err := fmt.Fprintln(p.in, n); err != nil {
		return err
	}
	if !p.out.Scan() {
		return errors.Join(fmt.Errorf("%s has ended", p.cmd.Path), p.out.Err())
	}
	if got := p.out.Text(); got != fmt.Sprint(n) {
		return fmt.Errorf("%s answers %q to %d", p.cmd.Path, got, n)
	}
	return nil
}

func (p *peer) counts() faultkv.Counts { return faultkv.Counts{} }

// stopTimeout is how long a program may take that was told to end.
const stopTimeout = 10 * time.Second

func (p *peer) close() error {
	timer := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() }) // Wait says so
	defer timer.Stop()
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
