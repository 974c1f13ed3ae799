package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// enter returns the actor with an id, open. The caller leaves it. If wait is set, and another process has the actor, enter waits until
// that has ended, or ctx has.
func enter(ctx context.Context, e *core, id actorstore.ID, wait bool) (*actor, error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, errLeaving
		}
		a := e.actors[id]
		if a == nil {
			a = newActor(e, id)
			e.actors[id] = a
			e.mu.Unlock()
			return a, open(ctx, a, wait)
		}
		if a.closing || a.phase == gone {
			e.mu.Unlock()
			select {
			case <-a.closed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		a.users++
		e.mu.Unlock()
		select {
		case <-a.opened:
		case <-ctx.Done():
			go func() {
				if <-a.opened; a.err == nil {
					a.leave()
				}
			}()
			return nil, ctx.Err()
		}
		if a.err != nil {
			return nil, a.err
		}
		return a, nil
	}
}

// newActor returns an actor that isn't open, with one user.
func newActor(e *core, id actorstore.ID) *actor {
	a := &actor{
		e: e, id: id, text: id.String(), users: 1, event: -1, said: sequence{e: e}, tunnels: map[rp.TunnelID]*tunnel{},
		opened: make(chan struct{}), closed: make(chan struct{}), changed: make(chan struct{}),
	}
	a.used.a = a
	a.mail = mailbox{a: a, room: make(chan struct{})}
	return a
}

// open opens the actor for the first caller that asks for it.
func open(ctx context.Context, a *actor, wait bool) error {
	e := a.e
	if !wait {
		ctx = context.WithoutCancel(ctx)
	}
	var l loaded
	err := l.load(ctx, e, a.id, wait)
	var r *runner
	if err == nil && l.rec.RunnerID != "" {
		if r, err = (takeover{e}).runner(ctx, l.public.Namespace, &l.rec); err != nil {
			err = errors.Join(err, l.handle.Close())
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(a.opened)
	if err == nil {
		l.into(a)
		e.spawn(func() { watch(a) })
		a.destroy = a.rec.Doomed || e.doomed[a.id]
		switch {
		case a.rec.RunnerID != "":
			if r != nil && e.runners[r.at] != r {
				r = nil // it was given up meanwhile
			}
			takeOver(r, a)
		case a.destroy:
			a.remove()
		default:
			a.endTunnels(false) // those of sockets that have ended with an engine before
		}
		return nil
	}
	switch {
	case errors.Is(err, actorstore.ErrUnknownActor):
		delete(e.doomed, a.id)
		err = errNotFound
	case errors.Is(err, actorstore.ErrInUse), errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", errUnavailable, err) // another process has it
	}
	a.err = err
	delete(e.actors, a.id)
	close(a.closed)
	return err
}

// A loaded is what the store has of an actor.
type loaded struct {
	handle *actorstore.Actor
	public actorInfo
	rec    rivetstore.Record
	kept   []keptMessage
}

// load opens an actor in the store, and reads what the engine keeps of it.
func (l *loaded) load(ctx context.Context, e *core, id actorstore.ID, wait bool) error {
	h, err := e.store.Actor(ctx, id, &actorstore.ActorOptions{MustExist: true, Wait: wait})
	if err != nil {
		return err
	}
	l.handle = h
	if l.public, l.rec, err = readActor(ctx, h, id, h.Name(), e.now()); err == nil {
		l.kept, err = loadMessages(ctx, h)
	}
	if err != nil {
		return errors.Join(err, h.Close())
	}
	return nil
}

// into gives a what was loaded.
//
// +checklocks:a.e.mu
func (l *loaded) into(a *actor) {
	a.handle, a.public, a.rec = l.handle, l.public, l.rec
	if at := l.handle.Wake().At; !at.IsZero() {
		a.alarm = at.UnixMilli()
	}
	a.mail.restore(l.kept)
}

// errNotRivetKit says that an actor is one of Greenroom's own.
var errNotRivetKit = newError(http.StatusBadRequest, "actor", "not_of_rivetkit", "The actor of this name wasn't made by a RivetKit program.")

// errHalf says that a part of the actor is missing.
var errHalf = newError(http.StatusBadRequest, "actor", "import_incomplete", "The import of the actor was cut off. Import it again.")

// readActor returns what clients are told of an actor, and the engine's record of it. One without a record, which was
// made with other tools, gets one.
func readActor(ctx context.Context, r actorstore.Reader, id actorstore.ID, name string, now time.Time) (actorInfo, rivetstore.Record, error) {
	rec := rivetstore.Record{Created: now.UnixMilli(), Runner: "default"}
	namespace, typ, key, ok := rivetstore.ParseActorName(name)
	if !ok || r.Layout() != actorstore.LayoutRivetKit {
		return actorInfo{}, rec, errNotRivetKit
	}
	value, err := r.Get(ctx, rivetstore.RecordKey(), nil)
	if err == nil {
		rec, err = rivetstore.ParseRecord(value)
	}
	if errors.Is(err, kv.ErrNotFound) {
		if _, err = r.Get(ctx, rivetstore.ImportKey(), nil); err == nil {
			err = errHalf
		}
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return actorInfo{}, rec, err
	}
	return actorInfo{
		ID: id, Namespace: namespace, Name: typ, Key: key, NoKey: isNoKey(key), Runner: rec.Runner, Created: time.UnixMilli(rec.Created),
	}, rec, nil
}

// look returns what clients are told of an actor, without opening it.
func look(ctx context.Context, e *core, id actorstore.ID) (actorInfo, error) {
	e.mu.Lock()
	a := e.actors[id]
	e.mu.Unlock()
	if a != nil {
		select {
		case <-a.opened:
		case <-ctx.Done():
			return actorInfo{}, ctx.Err()
		}
		e.mu.Lock()
		doomed, open, public := a.destroy, a.err == nil && a.phase != gone, describe(a)
		e.mu.Unlock()
		switch {
		case doomed:
			return actorInfo{}, errNotFound
		case open:
			return public, nil
		}
	}
	v, err := e.store.View(ctx, id)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return actorInfo{}, errNotFound
	}
	if err != nil {
		return actorInfo{}, err
	}
	public, rec, err := readActor(ctx, v, id, v.Info().Name, e.now())
	if errors.Is(err, errNotRivetKit) {
		err = errNotFound
	}
	if err == nil && rec.Doomed {
		err = errNotFound
	}
	if err == nil {
		public.Started, public.Slept = unixMilli(rec.Started), unixMilli(rec.Slept)
	}
	return public, errors.Join(err, v.Close())
}

// describe returns what clients are told of a.
//
// +checklocks:a.e.mu
func describe(a *actor) actorInfo {
	p := a.public
	p.Started = unixMilli(a.rec.Started)
	switch a.phase {
	case running:
		p.Connectable = a.since
	case asleep:
		p.Slept = unixMilli(a.rec.Slept)
	}
	return p
}

func unixMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// watch waits until the handle ends by itself: another process has taken the actor, or the store has failed.
func watch(a *actor) {
	select {
	case <-a.handle.Done():
	case <-a.closed:
		return
	case <-a.e.ctx.Done():
		return
	}
	e := a.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.closing || a.phase == gone {
		return
	}
	e.log.Warn("engine: an actor was lost", a.attr(), slog.Any("error", a.handle.Err()))
	if a.told && a.phase != stopping {
		a.tell(rp.StopActor{Reason: rp.StopLost})
	}
	if a.runner != nil {
		e.endings[a.id] = ending{a.rec.Generation, !a.told, a.runner.conn != nil}
	}
	a.detach()
	a.phase = gone
	for _, t := range a.tunnels {
		t.fail(errUnavailable)
	}
	a.notify()
	a.abandon()
}

// create makes an actor, unless there is one. It waits for the end of one that is being destroyed.
func create(ctx context.Context, e *core, s actorSpec) (a actorInfo, created bool, err error) {
	if s.NoKey {
		s.Key = newNoKey()
	}
	if s.Runner == "" {
		s.Runner = "default"
	}
	name := rivetstore.ActorName(s.Namespace, s.Name, s.Key)
	if len(name) > actorstore.MaxName {
		return a, false, newError(http.StatusBadRequest, "actor", "key_too_large", fmt.Sprintf("The name and the key have more than %d bytes.", actorstore.MaxName))
	}
	done := make(chan struct{})
	for {
		e.mu.Lock()
		other := e.creating[name]
		if other == nil {
			e.creating[name] = done
			e.mu.Unlock()
			break
		}
		e.mu.Unlock()
		select {
		case <-other: // it is there, and closed again
		case <-ctx.Done():
			return a, false, ctx.Err()
		}
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.creating, name)
		close(done)
	}()
	for {
		id, err := e.store.Lookup(ctx, name)
		if errors.Is(err, actorstore.ErrUnknownActor) {
			break
		}
		if err == nil {
			a, err = look(ctx, e, id)
		}
		if !errors.Is(err, errNotFound) {
			return a, false, err
		}
		if err := awaitEnd(ctx, e, id); err != nil {
			return a, false, err
		}
	}
	id := actorstore.NewID()
	h, err := e.store.Actor(ctx, id, &actorstore.ActorOptions{Name: name, Layout: actorstore.LayoutRivetKit})
	if err != nil {
		return a, false, err
	}
	rec := rivetstore.Record{Created: e.now().UnixMilli(), Runner: s.Runner, Input: s.Input}
	var b batch.Batch
	b.Put(rivetstore.RecordKey(), rec.Append(nil))
	b.WakeBy(time.Time{}) // it is started at once
	if err = errors.Join(h.Commit(ctx, &b), h.Close()); err == nil {
		a, err = look(ctx, e, id)
	}
	return a, err == nil, err
}

// awaitEvery is how often an actor is looked at that another engine is destroying.
const awaitEvery = 200 * time.Millisecond

// awaitEnd returns when an actor that is being destroyed is gone, or after a while if another engine has it.
func awaitEnd(ctx context.Context, e *core, id actorstore.ID) error {
	a, err := enter(ctx, e, id, false)
	ended := time.NewTimer(awaitEvery)
	defer ended.Stop()
	switch {
	case errors.Is(err, errNotFound):
		return nil
	case e.fleet != nil && errors.Is(err, actorstore.ErrInUse):
		select {
		case <-ended.C: // its end comes, and is looked for again
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case err != nil:
		return err
	}
	defer a.leave()
	select {
	case <-a.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ctx.Done():
		return errUnavailable
	}
}
