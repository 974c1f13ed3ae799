// Package wake wakes the actors of a store, in one process, when their time comes. The store
// says when that is, in an index in the order of time (actorstore.Store.Wakes). A Table reads the
// part of it that is due or nearly so every few seconds, which finds what other processes store,
// and hears at once of each actor that is closed in its own process.
//
// Files in order: table.go (what is known in memory, and when it is due), wake.go (reading the
// index, and the goroutines that wake actors), adopt.go (rows of stores that had no such index).
package wake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Options say what a Table does. All fields but Logger must be set.
type Options struct {
	Store *actorstore.Store
	// Now is the time of day.
	Now func() time.Time
	// Every is how often the index is read.
	Every time.Duration
	// Due returns when this process is to wake an actor; the zero time for never, as if another program has the actor.
	Due func(w *actorstore.Waking) time.Time
	// Awake reports whether the actor is awake in this process, or on its way there, or to sleep: then what
	// the index says isn't for the Table. Neither function may call the Table.
	Awake func(w *actorstore.Waking) bool
	// Wake wakes an actor, which was tried before so many times in a row. If it is to be tried again,
	// whatever the index says, Wake returns after how long; else a negative time. It is called by several goroutines,
	// and by one at a time for one actor.
	Wake func(ctx context.Context, w *actorstore.Waking, failures int) (again time.Duration)
	// Logger is told when the index can't be read; nil means slog.Default().
	Logger *slog.Logger
}

// wakers bounds how many actors are being woken at once.
const wakers = 16

// lostPause is how long an actor is left alone whose handle has failed.
const lostPause = time.Second

// A Table wakes actors. It is safe for concurrent use.
type Table struct {
	opts  Options
	log   *slog.Logger
	deaf  func() // ends the calls of Learn by the store
	ctx   context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup
	table table
	told  map[actorstore.ID]bool // of which damaged rows were logged; of the goroutine that reads
}

// New returns a Table that does nothing before Start. It must be closed.
func New(opts Options) *Table {
	t := &Table{opts: opts, log: opts.Logger, table: newTable(), told: map[actorstore.ID]bool{}}
	if t.log == nil {
		t.log = slog.Default()
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	t.deaf = opts.Store.OnWake(t.Learn)
	return t
}

// Start reads the index, and begins to wake actors. An error is the store's; then nothing has begun.
func (t *Table) Start(ctx context.Context) error {
	if err := t.read(ctx); err != nil {
		return err
	}
	t.tasks.Go(t.reread)
	t.tasks.Go(t.run)
	return nil
}

// Add has an actor woken at a time for what no row of the index says, or earlier if the index says so.
func (t *Table) Add(w actorstore.Waking, at time.Time) {
	t.table.add(&entry{Waking: w, at: at, told: true})
}

// Hurry tries an actor now that was tried in vain before.
func (t *Table) Hurry(name string) { t.table.hurry(name, t.opts.Now()) }

// Forget has the Table forget an actor that is being woken otherwise.
func (t *Table) Forget(name string) { t.table.forget(name) }

// Len returns how many actors are due or nearly so.
func (t *Table) Len() int { return t.table.len() }

// Close ends the waking, not what has been woken. A second Close does nothing.
func (t *Table) Close() {
	t.table.close()
	t.end()
	t.deaf()
	t.tasks.Wait()
}

// horizon is up to when the index has been read: what is due after that is found by a later read.
func (t *Table) horizon() time.Time { return t.opts.Now().Add(2 * t.opts.Every) }

// read reads the index.
func (t *Table) read(ctx context.Context) error {
	by := t.horizon()
	t.table.reading()
	for w, err := range t.opts.Store.Wakes(ctx, by, false) {
		if errors.Is(err, actorstore.ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) {
			t.damaged(w.ID, err)
			continue
		}
		if err != nil {
			return err
		}
		if at := t.opts.Due(&w); !at.IsZero() && !at.After(by) && !t.opts.Awake(&w) {
			t.table.found(&entry{Waking: w, at: at})
		}
	}
	return nil
}

// damaged logs a row that can't be read, once. Other actors are woken nevertheless.
func (t *Table) damaged(id actorstore.ID, err error) {
	if !t.told[id] {
		t.told[id] = true
		t.log.Error("wake: an actor may have to be woken", slog.String("id", id.String()), slog.Any("error", err))
	}
}

// reread reads the index again and again.
func (t *Table) reread() {
	tick := time.NewTicker(t.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			return
		}
		if err := t.read(t.ctx); err != nil && t.ctx.Err() == nil {
			t.log.Warn("wake: read the index of actors to be woken", slog.Any("error", err))
		}
	}
}

// Learn takes what is stored by now of when an actor must be woken, and why its handle is of no more use, nil if it is. The Table learns by
// itself of each actor that is closed in its process.
func (t *Table) Learn(w actorstore.Waking, lost error) {
	var e *entry
	if at := t.opts.Due(&w); !at.IsZero() && !at.After(t.horizon()) {
		e = &entry{Waking: w, at: at}
		if soonest := t.opts.Now().Add(lostPause); lost != nil && at.Before(soonest) {
			e.at = soonest
		}
	}
	t.table.learned(w.Name, e)
}

// run wakes what is due.
func (t *Table) run() {
	busy := make(chan struct{}, wakers)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e, in := t.table.due(t.opts.Now())
		if e != nil {
			select {
			case busy <- struct{}{}:
			case <-t.ctx.Done():
				return
			}
			t.tasks.Go(func() {
				t.wake(e)
				<-busy
			})
			continue
		}
		timer.Reset(in)
		select {
		case <-timer.C:
		case <-t.table.changed:
		case <-t.ctx.Done():
			return
		}
	}
}

func (t *Table) wake(e *entry) {
	again := t.opts.Wake(t.ctx, &e.Waking, e.failures)
	t.table.woken(e, again, t.opts.Now())
}
