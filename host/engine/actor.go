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
	"github.com/greenroomdb/greenroom/host/internal/gateway"
	"github.com/greenroomdb/greenroom/host/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/host/internal/runnerproto"
	"github.com/greenroomdb/greenroom/kv"
)

// A phase is where an actor stands.
type phase uint8

const (
	asleep   phase = iota
	starting       // a runner was told to start it, or is about to be
	running
	stopping // the runner was told to stop it
	gone     // it is destroyed, or another process has it
)

// An actor is one that the engine has open. It is until it sleeps and nobody waits for it. All fields from phase on are
// guarded by Engine.mu.
type actor struct {
	e    *Engine
	id   actorstore.ID
	text string // the id as runners and clients know it

	opened chan struct{} // closed when handle or err is set
	closed chan struct{} // closed when the actor may be opened anew
	err    error
	handle *actorstore.Actor
	public gateway.Actor // but for what changes

	phase   phase
	rec     rivetstore.Record
	users   int           // who needs it open
	closing bool          // its handle is being closed
	changed chan struct{} // closed when the phase changes, or a runner has come
	runner  *runner       // who runs it
	told    bool          // the runner was told to start it
	command int64         // index of the next command
	event   int64         // index of the last event
	unacked []rp.Command
	destroy bool // it is to be destroyed when it has stopped
	again   bool // it is to be started again then
	since   time.Time
	timer   *time.Timer
	tunnels map[uint32]*tunnel

	jobs      []func() // what is done with its keys, in order
	jobBytes  int
	working   bool
	unstored  bool     // a job will store messages
	forgotten [][]byte // keys of messages that were acknowledged
}

// enter returns the actor with an id, open. The caller leaves it.
func (e *Engine) enter(ctx context.Context, id actorstore.ID) (*actor, error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, gateway.ErrUnavailable
		}
		a := e.actors[id]
		if a == nil {
			a = &actor{
				e: e, id: id, text: id.String(), opened: make(chan struct{}), closed: make(chan struct{}), changed: make(chan struct{}),
				users: 1, tunnels: map[uint32]*tunnel{}, event: -1,
			}
			e.actors[id] = a
			e.mu.Unlock()
			return a, a.open(ctx)
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
		<-a.opened
		if a.err != nil {
			return nil, a.err
		}
		return a, nil
	}
}

// open opens the actor for whoever has asked for it first.
func (a *actor) open(ctx context.Context) error {
	err := a.load(context.WithoutCancel(ctx))
	e := a.e
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(a.opened)
	if err == nil {
		e.spawn(a.watch)
		return nil
	}
	switch {
	case errors.Is(err, actorstore.ErrUnknownActor):
		err = gateway.ErrNotFound
	case errors.Is(err, actorstore.ErrInUse):
		err = gateway.ErrUnavailable // another process has it
	}
	a.err = err
	delete(e.actors, a.id)
	close(a.closed)
	return err
}

// load reads what the engine keeps of the actor.
func (a *actor) load(ctx context.Context) (err error) {
	h, err := a.e.store.Actor(ctx, a.id, &actorstore.ActorOptions{MustExist: true})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if a.public, a.rec, err = readActor(ctx, h, h.ID(), h.Name(), a.e.now()); err != nil {
		return err
	}
	if err := a.loadMessages(ctx, h); err != nil {
		return err
	}
	a.handle = h
	return nil
}

// errNotRivetKit says that an actor is one of Greenroom's own.
var errNotRivetKit = &gateway.Error{
	Group: "actor", Code: "not_of_rivetkit", Message: "The actor of this name wasn't made by a RivetKit program.", Status: http.StatusBadRequest,
}

// readActor returns what clients are told of an actor, and the engine's record of it. One without a record, which was
// made with other tools, gets one.
func readActor(ctx context.Context, r actorstore.Reader, id actorstore.ID, name string, now time.Time) (gateway.Actor, rivetstore.Record, error) {
	rec := rivetstore.Record{Created: now.UnixMilli(), Runner: "default"}
	namespace, typ, key, ok := rivetstore.ParseActorName(name)
	if !ok || r.Layout() != actorstore.LayoutRivetKit {
		return gateway.Actor{}, rec, errNotRivetKit
	}
	value, err := r.Get(ctx, rivetstore.RecordKey(), nil)
	if err == nil {
		rec, err = rivetstore.ParseRecord(value)
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return gateway.Actor{}, rec, err
	}
	return gateway.Actor{
		ID: id.String(), Namespace: namespace, Name: typ, Key: key, NoKey: isNoKey(key), Runner: rec.Runner, Created: time.UnixMilli(rec.Created),
	}, rec, nil
}

// look returns what clients are told of an actor, without opening it.
func (e *Engine) look(ctx context.Context, id actorstore.ID) (gateway.Actor, error) {
	e.mu.Lock()
	a := e.actors[id]
	e.mu.Unlock()
	if a != nil {
		select {
		case <-a.opened:
		case <-ctx.Done():
			return gateway.Actor{}, ctx.Err()
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if a.err == nil && (a.phase != gone && !a.destroy) {
			return a.describe(), nil
		}
		if a.destroy {
			return gateway.Actor{}, gateway.ErrNotFound
		}
	}
	v, err := e.store.View(ctx, id)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return gateway.Actor{}, gateway.ErrNotFound
	}
	if err != nil {
		return gateway.Actor{}, err
	}
	public, rec, err := readActor(ctx, v, id, v.Info().Name, e.now())
	if errors.Is(err, errNotRivetKit) {
		err = gateway.ErrNotFound
	}
	if err == nil {
		public.Started, public.Slept = unixMilli(rec.Started), unixMilli(rec.Slept)
	}
	return public, errors.Join(err, v.Close())
}

// describe returns what clients are told of a.
//
// +checklocks:a.e.mu
func (a *actor) describe() gateway.Actor {
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

// leave gives back what enter has returned.
func (e *Engine) leave(a *actor) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a.users--
	a.settle()
}

// settle closes the actor if nobody needs it.
//
// +checklocks:a.e.mu
func (a *actor) settle() {
	if a.users > 0 || a.phase != asleep || len(a.tunnels) > 0 || a.working || a.closing || a.e.closed {
		return
	}
	a.closing = true
	a.e.spawn(func() {
		if err := a.handle.Close(); err != nil {
			a.e.log.Error("engine: close an actor", slog.String("actor", a.public.Name+"/"+a.public.Key), slog.Any("error", err))
		}
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		delete(a.e.actors, a.id)
		close(a.closed)
		a.e.alarms.poke()
	})
}

// watch waits until the handle ends by itself: another process has taken the actor, or the store has failed.
func (a *actor) watch() {
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
	e.log.Warn("engine: an actor was lost", slog.String("actor", a.public.Name+"/"+a.public.Key), slog.Any("error", a.handle.Err()))
	if a.runner != nil && (a.phase == running || a.phase == starting) {
		a.tell(rp.StopActor{})
	}
	a.detach()
	a.phase = gone
	for _, t := range a.tunnels {
		t.fail(gateway.ErrUnavailable)
	}
	a.notify()
	a.abandon()
}

// abandon closes the handle of an actor that is gone, once nothing works with it, and forgets the actor.
//
// +checklocks:a.e.mu
func (a *actor) abandon() {
	if a.working || a.closing {
		return
	}
	a.closing = true
	a.e.spawn(func() {
		err := a.handle.Close()
		if err != nil {
			a.e.log.Debug("engine: close a lost actor", slog.Any("error", err))
		}
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		delete(a.e.actors, a.id)
		close(a.closed)
	})
}

// notify tells everybody who waits that the phase has changed.
//
// +checklocks:a.e.mu
func (a *actor) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// create makes an actor, unless there is one.
func (e *Engine) create(ctx context.Context, s gateway.Spec) (id actorstore.ID, created bool, err error) {
	if s.NoKey {
		s.Key = newNoKey()
	}
	if s.Runner == "" {
		s.Runner = "default"
	}
	name := rivetstore.ActorName(s.Namespace, s.Name, s.Key)
	if len(name) > actorstore.MaxName {
		return id, false, &gateway.Error{Group: "actor", Code: "key_too_large", Message: fmt.Sprintf("The name and the key have more than %d bytes.", actorstore.MaxName), Status: http.StatusBadRequest}
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
			return id, false, ctx.Err()
		}
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.creating, name)
		close(done)
	}()
	if id, err = e.store.Lookup(ctx, name); !errors.Is(err, actorstore.ErrUnknownActor) {
		return id, false, err
	}
	id, err = e.make(ctx, name, rivetstore.Record{Created: e.now().UnixMilli(), Runner: s.Runner, Input: s.Input})
	return id, err == nil, err
}

func (e *Engine) make(ctx context.Context, name string, rec rivetstore.Record) (id actorstore.ID, err error) {
	id = actorstore.NewID()
	h, err := e.store.Actor(ctx, id, &actorstore.ActorOptions{Name: name, Layout: actorstore.LayoutRivetKit})
	if err != nil {
		return id, err
	}
	var b batch.Batch
	b.Put(rivetstore.RecordKey(), rec.Append(nil))
	err = h.Commit(ctx, &b)
	return id, errors.Join(err, h.Close())
}

// destroy ends an actor with all that it has.
func (e *Engine) destroy(ctx context.Context, id actorstore.ID) error {
	a, err := e.enter(ctx, id)
	if err != nil {
		return err
	}
	defer e.leave(a)
	e.mu.Lock()
	a.destroy = true
	switch a.phase {
	case starting, running:
		a.halt()
	case asleep:
		a.remove()
	}
	e.mu.Unlock()
	return nil
}

// remove drops the actor, which has stopped.
//
// +checklocks:a.e.mu
func (a *actor) remove() {
	a.phase = gone
	for _, t := range a.tunnels {
		t.fail(gateway.ErrNotFound)
	}
	a.notify()
	a.do(0, func() {
		e := a.e
		err := e.alarms.remove(a.id)
		if err == nil {
			err = a.handle.Drop(e.ctx)
		}
		if err != nil {
			e.log.Error("engine: destroy an actor", slog.String("actor", a.public.Name+"/"+a.public.Key), slog.Any("error", err))
		}
	})
}

// do has fn done with the actor's keys, after what was asked for before. bytes is what it has in memory.
//
// +checklocks:a.e.mu
func (a *actor) do(bytes int, fn func()) {
	a.jobs = append(a.jobs, fn)
	a.jobBytes += bytes
	if a.working {
		return
	}
	a.working = true
	a.e.spawn(func() {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		for len(a.jobs) > 0 {
			jobs := a.jobs
			a.jobs, a.jobBytes = nil, 0
			a.e.mu.Unlock()
			for _, fn := range jobs {
				fn()
			}
			a.e.mu.Lock()
		}
		a.working = false
		if a.phase == gone {
			a.abandon()
			return
		}
		a.settle()
	})
}
