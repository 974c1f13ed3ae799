// Package persist is the actor's own record: its state, the input it was created with,
// whether it has been initialised, and what it has scheduled; and the token that opens
// the inspector.
//
// The record is one value under one key, in the bytes that programs in other languages
// read and write. A Record keeps it in memory. State (OpenState) is a Go value in it that
// is read and changed in memory, and saved a little later, together with the connections
// that changed; Schedule calls the actor's actions at times of day.
//
// # What is stored when
//
// A change of the state is in memory at once and in the store with the next save: at
// most Options.SaveInterval later, or when Save or Close ask for it. Save returns nil
// only if the changes made before it are stored. A save that fails loses nothing: the
// state stays as it is in memory, and is tried again. Changes can also be staged in a
// batch (State.StageMutate), and are then made by its commit, or not at all.
//
// What is scheduled is stored when the call returns, and so is that an event is done: by
// itself if the store has no room for the newest state.
//
// A save is an Ordered batch: the record first, then the connections, cut into as many
// commits as the limits want. A crash between two of them leaves the new state, and of
// the connections, in the order in which they were staged, the first ones new and the
// rest as they were before; each of them is whole.
//
// # What it is not
//
// It gives no meaning to the state, and doesn't know what a connection is: those come as
// a batch.Stager. It isn't for large states: all of it is written with each save, and is
// at most one value (128 KiB by default). Tables belong into the actor's database.
package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
)

// Defaults of Options.
const (
	DefaultSaveInterval = 10 * time.Second
	DefaultRetryMin     = time.Second
	DefaultRetryMax     = 5 * time.Minute
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// Create makes a record, durably, if the actor has none, with Input. Else that is
	// ErrNoRecord.
	Create bool
	// Input is what the actor is created with, for its first initialisation; nil is
	// none. One that is too large is a *SizeError, and no record is made.
	Input any
	// Codec encodes input and state; nil means CBOR.
	Codec Codec
	// SaveInterval is the time between the beginnings of two saves that nobody asks
	// for at once. 0 means 10 seconds, a negative value none.
	SaveInterval time.Duration
	// Connections are staged behind the record in every save; nil means none. Stage is
	// called under the actor's commit lock. Of a method Changed() int, if there is one,
	// 0 says that there is nothing to stage; of a method Landed() uint64, the result is
	// the number (actorstore.Actor.Seq) of the last commit that had some of them.
	Connections batch.Stager
	// RetryMin and RetryMax bound the time until an action that failed is called again,
	// which doubles each time. 0 means a second, and 5 minutes.
	RetryMin, RetryMax time.Duration
	// MaxAttempts is how often an action is called for one event before the event is
	// parked (see Event.Parked). 0 means for ever.
	MaxAttempts int
	// CountFirst stores that an action is being called before it is, so that one which
	// ends the process is counted, too: one commit more for each call.
	CountFirst bool
	// Clock is the actor's alarm clock, of which the schedule becomes a source, with what
	// is stored: from Open on, started or not, and when the Record is closed it leaves
	// its time to the clock. The clock's OnChange may be called under the actor's commit
	// lock, and so must not commit. nil means a clock of its own.
	Clock *alarm.Clock
	// Logger takes what goes wrong while nobody waits. nil means slog.Default().
	Logger *slog.Logger
	// Metrics is told what happens (Metrics lists it); nil means nobody.
	Metrics metrics.Sink
}

// orDefault returns opts with the defaults.
func (opts *Options) orDefault() Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Codec == nil {
		o.Codec = CBOR{}
	}
	if o.SaveInterval == 0 {
		o.SaveInterval = DefaultSaveInterval
	}
	o.SaveInterval = max(o.SaveInterval, 0)
	if o.RetryMin <= 0 {
		o.RetryMin = DefaultRetryMin
	}
	if o.RetryMax <= 0 {
		o.RetryMax = DefaultRetryMax
	}
	o.RetryMax = max(o.RetryMax, o.RetryMin)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// A Record is the record of an actor. It is safe for concurrent use. When the actor
// refuses everything (actorstore.ErrFenced, ErrPoisoned) so does the Record, reads too:
// what is in memory may then be more, or less, than what is stored. Open the actor again.
// Reads are of memory, and don't find out whether another host has taken the actor over:
// whoever has to know that asks actorstore.Actor.Owned after a read.
type Record struct {
	actor *actorstore.Actor
	opts  Options
	log   *slog.Logger
	limit int    // of the record, in bytes
	free  func() // gives the namespace back
	input []byte // nil: none

	sched    Schedule
	ownClock bool
	saves    *alarm.Clock // of saver alone: saving is no reason to wake an actor
	saver    *alarm.Source
	tasks    sync.WaitGroup

	// mu is held for memory alone: never while the engine is asked, nor during a commit,
	// whose hooks take it.
	mu     sync.Mutex
	init   bool     // as stored  +checklocks:mu
	state  []byte   // encoded; the bytes never change  +checklocks:mu
	gen    uint64   // counts the states  +checklocks:mu
	events []*event // as stored, by time; the slice never changes  +checklocks:mu
	// eventBytes is what events take in the record.
	eventBytes int         // +checklocks:mu
	applied    uint64      // the state that is stored, by gen  +checklocks:mu
	landed     uint64      // the last commit of the actor that had something of r  +checklocks:mu
	loose      uint64      // the last of these that a save didn't wait for  +checklocks:mu
	safe       uint64      // the last commit known to be on stable storage  +checklocks:mu
	prior      batch.Prior // of the record  +checklocks:mu
	kept       []byte      // the state that is stored, nil if that isn't known  +checklocks:mu
	crowded    bool        // the newest state was refused for its size, and hasn't landed since  +checklocks:mu
	flight     *flight     // of the batch that is being committed  +checklocks:mu
	warned     bool        // that the record is large  +checklocks:mu
	gone       error       // why nothing can be saved any more  +checklocks:mu
	closed     bool        // +checklocks:mu

	running, next *save     // see save.go  +checklocks:mu
	lastSave      time.Time // when the last one began  +checklocks:mu
	wake          time.Time // what the timer is set to  +checklocks:mu
	failures      int       // saves in a row  +checklocks:mu

	watchers []func(context.Context) error // +checklocks:mu
	telling  bool                          // a goroutine calls the watchers  +checklocks:mu
	again    bool                          // and must once more  +checklocks:mu
}

// Open reads the record of an actor; nil opts are the zero Options. There can be one
// Record of an actor at a time: another is actorstore.ErrKept. It must be closed before
// the actor is.
//
// Errors: ErrNoRecord; *SizeError; actorstore.ErrCorrupt for a record that can't be
// decoded, which is left as it is, and ErrNewerFormat for one of a newer version; those
// of the actor.
func Open(ctx context.Context, actor *actorstore.Actor, opts *Options) (*Record, error) {
	r := &Record{actor: actor, opts: opts.orDefault()}
	r.log = r.opts.Logger.With("actor", actor.ID().String())
	l := actor.Limits()
	r.limit = min(l.ValueSize, l.Payload-batch.WrapperBytes-len(recordKey()))
	free, err := actor.Keep(actorstore.NamespacePersist)
	if err != nil {
		return nil, err
	}
	r.free = free
	// Whoever had the actor before need not have waited for what he applied.
	r.landed, r.loose = actor.Seq(), actor.Seq()
	if err := r.load(ctx); err != nil {
		free()
		return nil, err
	}
	r.saves = alarm.New(nil)
	r.saver = r.saves.Source(r.ring)
	r.sched.open(r)
	return r, nil
}

// load reads what is stored, or creates it.
func (r *Record) load(ctx context.Context) (err error) {
	snap, err := r.actor.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	raw, err := snap.Get(ctx, recordKey(), nil)
	switch {
	case errors.Is(err, actorstore.ErrNotFound) && r.opts.Create:
		return r.create(ctx)
	case err != nil:
		return noRecord(r.actor.ID(), err)
	}
	rec, err := parseRecord(raw)
	if err != nil {
		return err
	}
	r.prior = batch.Stored(len(raw))
	r.input, r.init, r.state, r.kept = rec.input, rec.init, rec.state, rec.state
	r.events, err = loadEvents(ctx, snap, rec.events, r.log)
	r.eventBytes = sizeOfEvents(r.events)
	return err
}

// noRecord says of a missing key that it is the record's.
func noRecord(id actorstore.ID, err error) error {
	if errors.Is(err, actorstore.ErrNotFound) {
		return fmt.Errorf("%w: %s", ErrNoRecord, id)
	}
	return err
}

// create makes the record of a new actor. The commit would refuse one that is too large
// as well; but the caller should be told that it was the input.
func (r *Record) create(ctx context.Context) error {
	r.state, r.kept = undefined, undefined
	if r.opts.Input != nil {
		var err error
		if r.input, err = encode(r.opts.Codec, "input", r.opts.Input); err != nil {
			return err
		}
	}
	value := appendRecord(nil, &record{input: r.input, state: r.state})
	if len(value) > r.limit {
		return &SizeError{"input", len(value), r.limit}
	}
	var b batch.Batch
	b.PutPrior(recordKey(), value, batch.Absent)
	r.prior = batch.Stored(len(value))
	return r.actor.Commit(ctx, &b)
}

// usable says why no call may go on.
//
// +checklocks:r.mu
func (r *Record) usable() error {
	if r.closed {
		return ErrClosed
	}
	return r.actor.Err()
}

// check is usable for who doesn't have the lock.
func (r *Record) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usable()
}

// Initialized says whether the actor has got its first state.
func (r *Record) Initialized() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.init
}

// Input decodes what the actor was created with into v. ErrNoInput says that there was
// nothing; other errors are the codec's.
func (r *Record) Input(v any) error {
	if r.input == nil {
		return ErrNoInput
	}
	if err := r.opts.Codec.Unmarshal(r.input, v); err != nil {
		return fmt.Errorf("persist: decode the input: %w", err)
	}
	return nil
}

// RawInput returns the encoded input, nil for none. It must not be changed.
func (r *Record) RawInput() []byte { return r.input }

// Size returns the bytes that the record takes as it is in memory, and how many it may.
func (r *Record) Size() (used, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return recordSize(r.input, r.state, len(r.events), r.eventBytes), r.limit
}

// Schedule returns the actor's schedule.
func (r *Record) Schedule() *Schedule { return &r.sched }

// Close ends the schedule, waits for the action that is being called, whose context it
// cancels, and saves what isn't stored yet. It returns nil when all of it is on stable
// storage, and then the Record refuses everything. After an error nothing is lost: the
// Record is open, but for its schedule, and Close can be called again. Only when the
// actor refuses everything the Record is closed in any case, and the error says if there
// was something to save. Close isn't for an action to call. A second Close returns nil.
func (r *Record) Close(ctx context.Context) error {
	if err := r.sched.stop(ctx); err != nil {
		return err
	}
	for flushed := false; ; flushed = true {
		done, err := r.tryClose(flushed)
		if done {
			return err
		}
		if err := r.flush(ctx); err != nil && !r.actorGone(err) {
			return err
		}
	}
}

// tryClose closes the Record if nothing is to be saved any more, or can be; flushed says
// that a save has just succeeded.
func (r *Record) tryClose(flushed bool) (done bool, err error) {
	conns := r.connections() > 0
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return true, nil
	}
	unsaved := r.gen != r.applied || conns
	if err = r.gone; err == nil {
		err = r.actor.Err()
	}
	busy := r.running != nil || r.flight != nil || r.safe < r.landed
	if err == nil && (unsaved || busy || !flushed) {
		r.mu.Unlock()
		return false, nil
	}
	r.closed = true
	if !unsaved && r.loose <= r.safe {
		err = nil
	}
	r.release(err)
	r.mu.Unlock()
	r.shut()
	return true, err
}

// actorGone says whether an error means that nothing can ever be saved again.
func (r *Record) actorGone(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone == nil && (r.actor.Err() != nil || errors.Is(err, actorstore.ErrClosed)) {
		r.gone = err
	}
	return r.gone != nil
}

// flush saves everything, and waits for what is under way.
func (r *Record) flush(ctx context.Context) error {
	r.mu.Lock()
	var busy <-chan struct{}
	switch {
	case r.flight != nil:
		busy = r.flight.over
	case r.running != nil:
		busy = r.running.done
	}
	r.mu.Unlock()
	if busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.Save(ctx, &SaveOptions{Immediate: true})
}

// shut ends what runs beside the calls.
func (r *Record) shut() {
	r.saver.Close()
	r.saves.Close()
	r.sched.shut()
	if r.ownClock {
		r.sched.clock.Close()
	}
	r.tasks.Wait()
	r.free()
}
