package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// An actor without a key has one in the store that no key is written as.
const noKey = `\-`

func newNoKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return noKey + hex.EncodeToString(b[:])
}

func isNoKey(key string) bool { return strings.HasPrefix(key, noKey) }

// lookEvery is how often an actor that has no runner looks for one at other engines.
const lookEvery = 250 * time.Millisecond

// await starts the actor, and returns when it runs. If only another engine has a runner for it the error is errElsewhere.
func (a *actor) await(ctx context.Context) error {
	e := a.e
	timeout := time.NewTimer(e.opts.ReadyTimeout)
	defer timeout.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return errLeaving
		}
		if a.phase == gone || a.destroy {
			defer e.mu.Unlock()
			return e.fleet.lost(a)
		}
		if a.runner.takes(a) {
			e.mu.Unlock()
			return nil
		}
		wakes := a.wake()
		if !wakes && e.draining {
			e.mu.Unlock()
			return errLeaving
		}
		lacks := !wakes && e.fleet != nil && e.pools.lack(a) && !e.pools.has(a)
		changed := a.changed
		e.mu.Unlock()
		if lacks && (e.fleet.gives(ctx, a) || isForwarded(ctx)) {
			return errElsewhere
		}
		select {
		case <-changed:
		case <-look.C:
			if lacks {
				e.fleet.routes.Stale()
			}
		case <-timeout.C:
			return errNotReady
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake starts the actor if it sleeps, and says whether that is under way.
//
// +checklocks:a.e.mu
func (a *actor) wake() bool {
	if a.phase != asleep {
		return a.phase == starting || a.phase == running
	}
	if a.closing || a.paused || a.destroy || a.e.draining {
		return false
	}
	end := a.e.endings[a.id]
	r, last := a.e.pools.pick(a, end.stopped && end.generation == a.rec.Generation)
	if r == nil {
		if last != nil {
			last.disown(a.text, a.rec.Generation)
		}
		return false
	}
	a.phase, a.runner, a.told = starting, r, false
	r.actors[a] = struct{}{}
	a.e.alarms.started(a)
	a.used.Begin(a.handle, a.e.opts.Clock, nil)
	a.command, a.event, a.again, a.wanted = firstCommand(r.envoy), -1, false, false
	a.rec.Generation++
	a.rec.Started = a.e.now().UnixMilli()
	a.rec.RunnerID, a.rec.RunnerKey = r.id, r.at.key
	a.limit(a.e.opts.StartThreshold)
	rec := a.rec
	a.do(0, func() { a.begin(rec) })
	return true
}

// begin stores that the actor is about to be started, and then starts it.
func (a *actor) begin(rec rivetstore.Record) {
	var b batch.Batch
	b.Put(rivetstore.RecordKey(), rec.Append(nil))
	b.WakeBy(time.Time{}) // until it sleeps
	err := a.handle.Commit(a.e.ctx, &b)
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	if a.phase != starting || a.rec.Generation != rec.Generation {
		return
	}
	if a.destroy {
		a.stopped(true)
		return
	}
	if err != nil {
		a.e.log.Error("engine: start an actor", a.attr(), slog.Any("error", err))
		a.paused = true
		a.users++ // it stays open meanwhile: closed, it would be due at once
		time.AfterFunc(startPause, func() {
			a.e.mu.Lock()
			defer a.e.mu.Unlock()
			a.paused = false
			a.users--
			a.notify()
			a.settle()
		})
		a.stopped(true)
		return
	}
	a.start()
}

// start tells the runner to start the actor, and sends what waits for it.
//
// +checklocks:a.e.mu
func (a *actor) start() {
	s := rp.StartActor{Name: a.public.Name, CreatedAt: a.rec.Created, Input: a.rec.Input}
	if !a.public.NoKey {
		s.Key = rp.Some(a.public.Key)
	}
	for _, t := range a.tunnels {
		if t.hibernates {
			t.awaits = a.runner.envoy
			s.Hibernating = append(s.Hibernating, t.id)
		} else if t.closing {
			t.remove() // it has ended before this start
		}
	}
	a.tell(s)
	a.told, a.via = true, a.runner.conn
	a.resend()
}

// resend sends what clients have sent over sockets that hibernate, and the actor hasn't acknowledged, and tells the actor which
// clients have gone.
//
// +checklocks:a.e.mu
func (a *actor) resend() {
	for _, t := range a.tunnels {
		t.sent = t.first()
		t.flush()
	}
}

// tell sends the runner a command. Whether the runner has it is known by what it says then: it acknowledges commands after minutes.
//
// +checklocks:a.e.mu
func (a *actor) tell(body rp.CommandBody) {
	c := rp.Command{Checkpoint: rp.Checkpoint{Actor: a.text, Generation: a.rec.Generation, Index: a.command}, Body: body}
	a.command++
	a.runner.send(rp.Commands{c})
}

// limit stops an actor that takes longer than d to start or stop.
//
// +checklocks:a.e.mu
func (a *actor) limit(d time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
	}
	generation, at := a.rec.Generation, a.phase
	a.timer = time.AfterFunc(d, func() {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		if a.rec.Generation != generation || a.phase != at || a.e.closed {
			return
		}
		a.e.log.Warn("engine: an actor takes too long to start or stop", a.attr())
		a.used.Fail("timeout", placeActor)
		if at == starting && a.told {
			a.tell(rp.StopActor{Reason: rp.StopLost})
		}
		a.stopped(false)
	})
}

// sleepDelay is how long an actor that wants to sleep gets what comes over its sockets. RivetKit ignores what comes once it was told to
// stop: what is on its way would come again at the actor's next start, and wake it.
const sleepDelay = 50 * time.Millisecond

// heard takes an event of the actor. It reports whether the event may be acknowledged now: it isn't sent again then.
//
// +checklocks:a.e.mu
func (a *actor) heard(r *runner, ev rp.Event) (done bool) {
	if ev.Checkpoint.Generation != a.rec.Generation || ev.Checkpoint.Index <= a.event {
		return true
	}
	a.event = ev.Checkpoint.Index
	switch body := ev.Body.(type) {
	case rp.Intent:
		a.wanted = true
		switch {
		case body == rp.IntentStop:
			a.doom(func(err error) {
				if err == nil {
					r.send(rp.AckEvents{ev.Checkpoint})
				}
			})
			return false
		case a.phase == starting || a.phase == running:
			generation := a.rec.Generation
			time.AfterFunc(sleepDelay, func() {
				a.e.mu.Lock()
				defer a.e.mu.Unlock()
				if a.rec.Generation == generation && !a.e.closed && (a.phase == starting || a.phase == running) {
					a.halt()
					r.send(rp.AckEvents{{Actor: a.text, Generation: generation, Index: a.event}})
				}
			})
		}
	case rp.Running:
		if a.phase != starting {
			return true
		}
		a.phase, a.since = running, a.e.now()
		a.timer.Stop()
		a.notify()
		if a.alarm <= a.since.UnixMilli() {
			a.alarm = 0 // it has come
		}
	case rp.Stopped:
		if body.Code != rp.StopOK && a.phase != stopping { // from 2.2 on it is an error to sleep
			a.e.log.Warn("engine: an actor has ended by an error", a.attr(), slog.String("message", body.Message.Value))
			a.used.Fail("ended", placeActor)
		}
		// An envoy's actor that ends well, and unasked, is over. The engine before may have asked one that is taken over.
		if r.envoy && body.Code == rp.StopOK && !a.wanted && a.command < takenOver && (a.phase == starting || a.phase == running) {
			a.phase = stopping
			a.doom(func(err error) {
				if err == nil {
					r.send(rp.AckEvents{ev.Checkpoint})
				}
				a.stopped(true)
			})
			return false
		}
		a.stopped(true)
	case rp.SetAlarm:
		a.alarm = 0
		if body.At.Set {
			a.alarm = max(body.At.Value, 1)
		}
	}
	// An engine that follows must hear again that the actor wants to sleep, if this one ends before it has told it to stop.
	return !a.wanted || a.phase != starting && a.phase != running
}

// halt tells the runner to stop the actor.
//
// +checklocks:a.e.mu
func (a *actor) halt() {
	a.phase = stopping
	if a.told {
		for _, t := range a.tunnels {
			t.atStop = t.sent
		}
		a.tell(rp.StopActor{Reason: stopReason(a.destroy, a.wanted)})
		a.via = a.runner.conn
	} else { // it wasn't told to start it
		a.stopped(true)
		return
	}
	a.limit(a.e.opts.StopThreshold)
	a.notify()
}

// stopReason says why an actor is told to stop.
func stopReason(destroyed, wanted bool) rp.StopReason {
	switch {
	case destroyed && wanted:
		return rp.StopAsWished
	case destroyed:
		return rp.StopToDestroy
	case wanted:
		return rp.StopToSleep
	}
	return rp.StopGoingAway
}

// firstCommand is the index of an actor's first command.
func firstCommand(ofEnvoy bool) int64 {
	if ofEnvoy {
		return 1
	}
	return 0
}

// detach takes the actor from its runner.
//
// +checklocks:a.e.mu
func (a *actor) detach() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.runner != nil {
		delete(a.runner.actors, a)
	}
	a.runner, a.told, a.via = nil, false, nil
	a.span.over()
}

// doom begins the end of the actor, and calls stored when the store says so. Then the engine tells the runner to stop the actor, and
// removes everything of it when it has stopped.
//
// +checklocks:a.e.mu
func (a *actor) doom(stored func(error)) {
	a.destroy, a.e.doomed[a.id] = true, true
	a.span.of(a.e.ctx)
	time.AfterFunc(a.e.opts.StopThreshold, a.span.end) // of SQL that doesn't end: what follows waits for it
	a.do(0, func() {
		e := a.e
		e.mu.Lock()
		rec := a.rec
		e.mu.Unlock()
		var err error
		if !rec.Doomed {
			rec.Doomed = true
			var b batch.Batch
			b.Put(rivetstore.RecordKey(), rec.Append(nil))
			b.WakeBy(time.Time{}) // should the engine end meanwhile
			err = a.handle.Commit(e.ctx, &b)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		defer stored(err)
		if err != nil {
			e.log.Error("engine: destroy an actor", a.attr(), slog.Any("error", err))
		} else {
			a.rec.Doomed = true
		}
		switch a.phase {
		case starting, running:
			a.halt()
		case asleep:
			a.remove()
		}
	})
}

// stopped follows the end of the actor in its runner. surely says that it has ended, and not only that it had its time.
//
// +checklocks:a.e.mu
func (a *actor) stopped(surely bool) {
	if a.phase == asleep || a.phase == gone {
		return
	}
	a.detach()
	if a.rec.RunnerID = ""; surely {
		a.rec.RunnerKey = ""
		a.e.endings[a.id] = ending{generation: a.rec.Generation, stopped: true} // until it is stored
	}
	if a.destroy {
		a.remove()
		return
	}
	a.phase, a.rec.Slept = asleep, a.e.now().UnixMilli()
	a.used.Sleep()
	if a.e.closed {
		return // its row says that it is to be started
	}
	a.users++ // it isn't closed before this is done
	defer func() {
		a.users--
		a.settle()
	}()
	waits := a.endTunnels(surely && a.wanted) || a.again || a.alarm == unknownAlarm
	a.notify()
	rec := a.rec
	a.do(0, func() {
		a.pages.end()
		a.storeSleep(rec)
	})
	if waits && !a.wake() {
		a.e.alarms.ring(a)
	}
}

// nextStart returns when the actor, which has stopped, must be started: one that could not be started when its alarm rang, after a pause.
//
// +checklocks:a.e.mu
func (a *actor) nextStart() (w actorstore.Wake) {
	now := a.e.now()
	for _, t := range a.tunnels {
		if len(t.pending) > 0 {
			w.At = now
			return w
		}
	}
	if a.alarm != 0 {
		w.At = time.UnixMilli(a.alarm)
		if !w.At.After(now) {
			w.At = now.Add(retry)
		}
	}
	return w
}

// endTunnels ends the tunnels that don't outlive the end of the actor in its runner, and reports whether messages wait in the
// others. clean says that the actor has ended by itself: then it has seen to what it was sent before it was told to stop, though it
// may not have said so.
//
// +checklocks:a.e.mu
func (a *actor) endTunnels(clean bool) (waits bool) {
	for _, t := range a.tunnels {
		switch {
		case !t.hibernates:
			t.fail(errStopped)
		case t.client == nil && (len(t.pending) == 0 || clean && t.sent == t.atStop && len(t.unsent()) == 0):
			t.remove()
		default:
			waits = waits || len(t.pending) > 0
		}
	}
	return waits
}

// storeSleep stores that the actor sleeps, and until when.
func (a *actor) storeSleep(rec rivetstore.Record) {
	var b batch.Batch
	b.Put(rivetstore.RecordKey(), rec.Append(nil))
	a.e.mu.Lock()
	gone := a.mail.forgotten
	a.mail.forgotten = nil
	w, started := a.nextStart(), a.phase != asleep
	a.e.mu.Unlock()
	for _, key := range gone {
		b.Delete(key)
	}
	var err error
	if !started { // else what follows is stored behind it
		err = a.handle.StageWake(&b, w)
	}
	a.used.Stage(&b, true)
	attributes.Stage(a.e.ctx, a.handle, &b) // what the program has stored, as it came
	if err == nil {
		err = a.handle.Apply(a.e.ctx, &b)
	}
	if err != nil {
		a.e.log.Warn("engine: note that an actor sleeps", a.attr(), slog.Any("error", err))
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		a.mail.forgotten = append(gone, a.mail.forgotten...)
		return
	}
	a.e.mu.Lock()
	if a.e.endings[a.id].generation <= rec.Generation {
		delete(a.e.endings, a.id)
	}
	a.e.mu.Unlock()
	a.e.alarms.Learn(actorstore.Waking{ID: a.id, Name: a.name(), Layout: actorstore.LayoutRivetKit, Wake: a.handle.Wake()}, nil)
}

// remove drops the actor, which has stopped.
//
// +checklocks:a.e.mu
func (a *actor) remove() {
	a.phase = gone
	a.e.alarms.started(a) // it waits for no runner any more
	for _, t := range a.tunnels {
		t.fail(errNotFound)
	}
	a.notify()
	a.do(0, func() {
		a.pages.end()
		e := a.e
		err := a.handle.Drop(e.ctx)
		if err != nil {
			e.log.Error("engine: destroy an actor", a.attr(), slog.Any("error", err))
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if err == nil {
			delete(e.doomed, a.id)
			delete(e.endings, a.id)
		}
	})
}
