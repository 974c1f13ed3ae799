package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A runner whose connection has ended, or whose engine has, may come back: its actors run on in its process meanwhile. It is
// known by its key, gets the id that it had, and keeps its actors. A runner that gets another id stops all that it has.
//
// The record of an actor has the id of the runner that was told to start it, in the commit before that. So to an engine that is
// opened all runners of the engine before are lost. When one doesn't come back it is given up: a row says so before any
// of its actors is started anew, since one that comes back later must not get its old id.
//
// What a runner had to say while it was away comes in the order of its connection, before the answer to a Ping. Then the
// engine knows which actors have never been told to start, and asks the others whether they are there: a process that was
// started with the key of another one has none of them, and says nothing about that.

const (
	// probeTimeout is how long an actor may take to say that it is there. It is asked by a request that RivetKit's router answers.
	probeTimeout = 5 * time.Second
	probePath    = "/health"
	// keepGivenUp is how long the row of a runner that was given up is kept.
	keepGivenUp = 30 * 24 * time.Hour
	// keepLost is for how long a runner that was given up is remembered: it may come back with actors.
	keepLost = time.Hour
	// openers bounds how many actors of a runner are opened at once when it comes back.
	openers = 16
)

// A takeover finds the runners and the actors of engines before.
type takeover struct{ e *core }

// load makes the runners of the actors that ran when an engine before has ended, and of those that other engines have.
func (t takeover) load(ctx context.Context) error {
	e := t.e
	for w, err := range e.store.Wakes(ctx, e.now(), true) {
		if errors.Is(err, actorstore.ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) {
			continue // the alarms say so
		}
		if err != nil {
			return err
		}
		if w.Layout != actorstore.LayoutRivetKit {
			continue
		}
		if err := t.loadOf(ctx, w.ID); err != nil {
			return err
		}
	}
	return t.tidy(ctx)
}

// loadOf makes the runner that has an actor, if one has it.
func (t takeover) loadOf(ctx context.Context, id actorstore.ID) error {
	e := t.e
	v, err := e.store.View(ctx, id)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return nil
	}
	if err != nil {
		return err
	}
	public, rec, err := readActor(ctx, v, id, v.Info().Name, e.now())
	if err = errors.Join(err, v.Close()); err != nil || rec.RunnerID == "" {
		return nil // what is wrong is said when the actor is opened
	}
	r, err := t.runner(ctx, public.Namespace, &rec)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r != nil && r.conn == nil {
		r.orphans = append(r.orphans, id)
	}
	return err
}

// runner returns the runner that a record names, lost if it isn't connected. It is nil if the runner was given up, or has got
// another id, for which it stops all that it has.
func (t takeover) runner(ctx context.Context, namespace string, rec *rivetstore.Record) (*runner, error) {
	e := t.e
	at := runnerKey{namespace, rec.Runner, rec.RunnerKey}
	e.mu.Lock()
	r := e.runners[at]
	e.mu.Unlock()
	if r == nil {
		_, err := e.kv.Get(ctx, rivetstore.GivenUpKey(rec.RunnerID), nil)
		if err == nil {
			return nil, nil
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r = e.runners[at]; r == nil {
		r = t.add(at, rec.RunnerID)
		r.lose(e.opts.LostThreshold)
	}
	if r.id != rec.RunnerID {
		return nil, nil
	}
	return r, nil
}

// add makes a runner that isn't connected.
//
// +checklocks:t.e.mu
func (t takeover) add(at runnerKey, id string) *runner {
	e := t.e
	r := &runner{e: e, at: at, id: id, actors: map[*actor]struct{}{}, gone: make(chan struct{})}
	e.runners[at] = r
	return r
}

// tidy removes rows of runners that were given up long ago.
func (t takeover) tidy(ctx context.Context) error {
	e := t.e
	c := kv.Commit{Durability: kv.Applied}
	for row, err := range e.kv.Scan(ctx, rivetstore.GivenUpRange()) {
		if err != nil {
			return err
		}
		ms, err := rivetstore.ParseTime(row.Value)
		if err != nil {
			return err
		}
		if e.now().Sub(time.UnixMilli(ms)) > keepGivenUp {
			c.Ops = append(c.Ops, kv.Clear(append([]byte(nil), row.Key...)))
		}
	}
	if len(c.Ops) == 0 {
		return nil
	}
	return e.kv.Commit(ctx, &c)
}

// lose gives the runner up after d, unless it comes back.
//
// +checklocks:r.e.mu
func (r *runner) lose(d time.Duration) {
	if r.lost != nil {
		r.lost.Stop()
	}
	r.lost, r.until = time.AfterFunc(d, r.giveUp), time.Now().Add(d)
}

// hasten gives runners up earlier whose process may be gone, now that r can take their actors: the connection of one broke off, or the
// engine is a new one and doesn't know; then this counts only if r comes for the first time.
//
// +checklocks:r.e.mu
func (r *runner) hasten(first bool) {
	d := r.e.opts.BrokenThreshold
	for _, o := range r.e.runners {
		if o != r && o.conn == nil && !o.over && o.pool() == r.pool() && (o.broken || first && !o.came) && time.Until(o.until) > d {
			o.lose(d)
		}
	}
}

// giveUp ends a runner that hasn't come back: what it had is started anew.
func (r *runner) giveUp() {
	e := r.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.conn != nil || e.closed || r.ending || e.runners[r.at] != r {
		return
	}
	if len(r.actors)+len(r.orphans) == 0 {
		delete(e.runners, r.at)
		return
	}
	r.over, r.ending = true, true
	ids := r.orphans
	r.orphans = nil
	e.spawn(func() {
		takeover{e}.open(e.ctx, ids, false) // so that it is known what it had
		e.mu.Lock()
		if len(r.actors) == 0 {
			defer e.mu.Unlock()
			r.forget()
			return
		}
		e.mu.Unlock()
		row := kv.Set(rivetstore.GivenUpKey(r.id), rivetstore.AppendTime(nil, e.now().UnixMilli()))
		err := e.kv.Commit(e.ctx, &kv.Commit{Ops: []kv.Op{row}, Durability: kv.Durable})
		e.mu.Lock()
		defer e.mu.Unlock()
		if err != nil {
			if e.ctx.Err() == nil {
				e.log.Error("engine: give a runner up", slog.String("runner", r.at.key), slog.Any("error", err))
				r.ending = false
				r.lose(startPause)
			}
			return
		}
		r.forget()
		for a := range r.actors {
			a.used.Fail("lost", placeRunner)
			a.stopped(false)
		}
	})
}

// forget ends a runner that is given up.
//
// +checklocks:r.e.mu
func (r *runner) forget() {
	now := r.e.now()
	for at, since := range r.e.lost {
		if now.Sub(since) > keepLost {
			delete(r.e.lost, at)
		}
	}
	delete(r.e.runners, r.at)
	r.e.lost[r.at] = now
	close(r.gone)
}

// await opens the actors of a runner that is about to be connected anew. If the runner is being given up, it returns when that is done.
func (t takeover) await(ctx context.Context, at runnerKey) error {
	e := t.e
	e.mu.Lock()
	r := e.runners[at]
	if r == nil && e.shared {
		// Another engine may have had it, and have ended since this one was opened.
		e.mu.Unlock()
		if err := t.load(ctx); err != nil {
			return err
		}
		e.mu.Lock()
		r = e.runners[at]
	}
	if r == nil {
		e.mu.Unlock()
		return nil
	}
	ids := r.orphans
	r.orphans = nil
	e.mu.Unlock()
	if left := t.open(ctx, ids, true); len(left) > 0 {
		e.mu.Lock()
		r.orphans = append(r.orphans, left...) // it has them still: without them nothing would say so
		e.mu.Unlock()
		r.giveUp() // another engine may have given it up
	}
	e.mu.Lock()
	over := r.over
	e.mu.Unlock()
	if over {
		select {
		case <-r.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// open opens actors, some at once, and returns those that this engine hasn't. If wait is set it waits for those of another engine, which may
// have ended, as long as that may take.
func (t takeover) open(ctx context.Context, ids []actorstore.ID, wait bool) (left []actorstore.ID) {
	e := t.e
	ctx, cancel := context.WithTimeout(ctx, e.opts.LostThreshold)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	fail := func(ids ...actorstore.ID) {
		mu.Lock()
		defer mu.Unlock()
		left = append(left, ids...)
	}
	slots := make(chan struct{}, openers)
	for i, id := range ids {
		slots <- struct{}{}
		if ctx.Err() != nil {
			fail(ids[i:]...)
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			switch a, err := enter(ctx, e, id, wait); {
			case err == nil:
				a.leave()
			case !wait && errors.Is(err, actorstore.ErrInUse):
				fail(id) // its engine has its runner, or gives that up itself
			case !errors.Is(err, errNotFound):
				fail(id)
				e.log.Warn("engine: open an actor of an engine before", slog.String("id", id.String()), slog.Any("error", err))
			}
		})
	}
	all.Wait()
	return left
}

// takeOver gives the actor, which was opened just now, to the runner that has it; r is nil if that is given up.
//
// +checklocks:a.e.mu
func takeOver(r *runner, a *actor) {
	a.alarm = unknownAlarm
	a.phase, a.runner, a.told, a.command = running, r, r != nil, takenOver
	a.used.Begin(a.handle, a.e.opts.Clock, nil)
	end, ends := a.e.endings[a.id]
	ends = ends && end.generation == a.rec.Generation
	switch {
	case r == nil, ends && end.stopped:
		a.stopped(ends && end.stopped)
		return
	case ends:
		if a.phase = stopping; end.told {
			a.via = new(runnerConn) // over an earlier one
		}
		r.remind(a) // it may have been away when it was told
	}
	a.since = time.UnixMilli(a.rec.Started)
	r.actors[a] = struct{}{}
	if a.phase == running && a.destroy {
		a.halt()
	} else if r.reachable() {
		r.probe(a)
	}
}

// resume follows what a runner had to say when it came back.
//
// +checklocks:r.e.mu
func (r *runner) resume() {
	r.conn.resuming = false
	for a := range r.actors {
		switch a.phase {
		case starting:
			if a.told && a.event < 0 && a.via != r.conn { // it hasn't heard of it
				a.command = firstCommand(r.envoy)
				a.start()
			}
		case running:
			a.resend()
			r.probe(a)
		case stopping:
			a.resend()
			r.remind(a)
		}
		a.notify()
	}
	r.conn.ask(nil) // behind the probes
	r.join()
}

// join lets the runner take actors.
//
// +checklocks:r.e.mu
func (r *runner) join() {
	if r.stopping {
		return
	}
	r.e.pools.join(r)
	r.e.fleet.poke()
	for name := range r.e.alarms.arrived(r.pool()) {
		r.e.alarms.Hurry(name)
	}
}

// remind tells the runner once more to stop the actor, which it may not have heard. One that has heard it has its time to save
// what it must: told twice it would say too early that it has stopped.
//
// +checklocks:r.e.mu
func (r *runner) remind(a *actor) {
	a.limit(a.e.opts.StopThreshold)
	if a.via == nil && r.conn != nil {
		a.tell(rp.StopActor{Reason: stopReason(a.destroy, a.wanted)})
		a.via = r.conn
		return
	}
	generation := a.rec.Generation
	time.AfterFunc(a.e.opts.StopThreshold/2, func() {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		if a.phase == stopping && a.rec.Generation == generation && !a.e.closed {
			a.tell(rp.StopActor{Reason: stopReason(a.destroy, a.wanted)})
		}
	})
}

// A probe waits for an answer of an actor that should be in its runner. It begins to wait when the runner has answered a ping that was
// sent behind the probe, and anew when the runner is at work, and doesn't answer pings either.
type probe struct {
	generation uint32
	ping       int64 // the number of the last ping before the probe
	waited     time.Duration
}

// probe asks the actor whether it is there.
//
// +checklocks:r.e.mu
func (r *runner) probe(a *actor) {
	p := &probe{generation: a.rec.Generation, ping: r.conn.asked}
	t := newTunnel(a, a.e.newID())
	t.client = p
	t.track()
	t.send(rp.RequestStart{Actor: a.text, Method: "GET", Path: probePath, Headers: []rp.Header{{Name: "host", Value: "actor"}}})
	p.await(t)
}

// await ends the probe if the actor doesn't answer in time.
//
// +checklocks:t.e.mu
func (p *probe) await(t *tunnel) {
	const step = probeTimeout / 5
	time.AfterFunc(step, func() {
		a := t.a
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		if !t.isOpen() || a.phase != running || a.e.closed {
			return
		}
		p.waited += step
		if r := a.runner; !r.reachable() || r.conn.answered <= p.ping || a.e.now().Sub(r.conn.heard) > a.e.opts.PingInterval+step {
			p.waited = 0
		}
		if p.waited < probeTimeout {
			p.await(t)
			return
		}
		t.remove()
		a.runner.missing(a)
	})
}

// take implements client.
func (p *probe) take(t *tunnel, m rp.FromActor) {
	start, ok := m.Body.(rp.ResponseStart)
	t.remove()
	if a := t.a; ok && missed(start) && a.phase == running && a.rec.Generation == p.generation {
		a.runner.missing(a)
	} else if ok && start.Status >= 500 && a.phase == running && a.rec.Generation == p.generation {
		a.halt() // its runner has only a part of it
	}
}

// sent implements client.
func (p *probe) sent() {}

// missed reports whether an answer is that of an envoy for an actor that it doesn't have.
func missed(start rp.ResponseStart) bool {
	for _, h := range start.Headers {
		if h.Name == "x-rivet-error" && h.Value == "envoy.actor_not_found" {
			return start.Status == http.StatusServiceUnavailable
		}
	}
	return false
}

// fail implements client: the actor stops, or its runner is lost.
func (p *probe) fail(*tunnel, error) {}

// missing follows an actor that isn't in its runner. One that was started just now may be there, and at work: it is told to stop.
//
// +checklocks:r.e.mu
func (r *runner) missing(a *actor) {
	a.e.log.Warn("engine: a runner has come back without an actor", a.attr())
	a.used.Fail("missing", placeRunner)
	if a.again = true; a.e.now().Sub(a.since) < a.e.opts.StartThreshold+a.e.opts.StopThreshold {
		a.halt()
		return
	}
	a.stopped(false)
}
