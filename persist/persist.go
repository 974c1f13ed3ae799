// Package persist is the actor's own record: its state, the input it was created with,
// whether it has been initialised, and what it has scheduled.
//
// The record is one value under one key, in the bytes that programs in other languages
// read and write. A Record keeps it in memory: the state is one value in CBOR, and
// Schedule calls the actor's actions at times of day.
//
// # What is stored when
//
// Changes are staged in a batch (Record.In), and are made when it lands, or not at all:
//
//	var b batch.Batch
//	err := rec.In(&b).SetRawState(value)
//	id, err := rec.In(&b).Add(persist.Job{Action: "remind", At: noon})
//	err = actor.Commit(ctx, &b) // or Apply, which doesn't wait for stable storage
//
// Methods that take a context, such as Schedule.Add, make one change with a durable commit
// of their own. What is in memory is what is stored, so nothing is left to be saved later.
//
// # The state as a value of Go
//
// Here state and input are bytes. Package greenroom's functions State, SetState and Mutate,
// which make values of Go of them, take a Tx of this package, too.
//
// # What it is not
//
// It gives no meaning to the state, and doesn't know what a connection is. It isn't for
// large states: all of it is written with each change, and is at most one value (128 KiB by
// default). Tables belong in the actor's database.
package persist

// Files, from the top down:
//
//	look.go schedule.go tx.go run.go persist.go metrics.go event.go cron.go errors.go record.go keys.go
//	note.go

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/drain"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/part"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// Create makes a record, durably, if the actor has none, with Input. Without Create
	// and CreateLate an actor that has none is ErrNoRecord.
	Create bool
	// CreateLate is Create, but Open writes nothing: until the first commit that changes
	// something of the record it exists in memory alone, and that commit stores it, with
	// Input. After a commit that failed, or a crash before it, the actor has no record.
	// With Create it has no effect.
	CreateLate bool
	// Input is what the actor is created with, one value in CBOR; empty means without input. Open keeps a
	// copy. An input that isn't such a value is an error, one that is too large a *SizeError;
	// no record is made then.
	Input []byte
	// RetryMin and RetryMax bound the time until an action that failed is called again,
	// which doubles each time. 0 means a second, and 5 minutes.
	RetryMin, RetryMax time.Duration
	// MaxAttempts is how often an action is called for one event before the event is
	// parked (see Event.Parked). 0 means for ever.
	MaxAttempts int
	// CountFirst stores that an action is being called before it is, so that one which
	// ends the process is counted, too: one commit more for each call.
	CountFirst bool
	// Env is what the parts of an actor share. The schedule is a source of the clock, with what is stored: from Open on,
	// started or not, and when the Record is closed it leaves its time to the clock. An event that is being run counts until
	// its end is stored; one that is parked, or whose action is missing, doesn't count.
	part.Env
}

// orDefault returns opts with the defaults.
func (opts *Options) orDefault() Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.RetryMin <= 0 {
		o.RetryMin = time.Second
	}
	if o.RetryMax <= 0 {
		o.RetryMax = 5 * time.Minute
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
// code that must know asks actorstore.Actor.Owned after a read.
type Record struct {
	actor *actorstore.Actor
	opts  Options
	log   *slog.Logger
	meter metrics.Meter
	limit int    // of the record, in bytes
	free  func() // gives the namespace back
	input []byte // nil: none

	sched    Schedule
	ownClock bool
	gate     drain.Gate // of commits
	end      sync.Once

	// mu is held for memory alone: never while the engine is asked, nor during a commit,
	// whose participants take it. What is stored changes under the actor's commit lock, too.
	mu     sync.Mutex
	init   bool     // the stored record says that the actor is initialised  +checklocks:mu
	state  []byte   // encoded; the bytes never change  +checklocks:mu
	events []*event // by time; the slice never changes  +checklocks:mu
	// eventBytes is what events take in the record.
	eventBytes int         // +checklocks:mu
	prior      batch.Prior // of the record  +checklocks:mu
	warned     bool        // that the record is large  +checklocks:mu
	landings   uint64      // how many commits have changed the record  +checklocks:mu
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
	r.meter.To = r.opts.Metrics
	r.log = r.opts.Logger.With("actor_id", actor.ID().String())
	l := actor.Limits()
	r.limit = min(l.ValueSize, l.Payload-batch.WrapperBytes-len(recordKey()))
	free, err := actor.Keep(actorstore.NamespacePersist)
	if err != nil {
		return nil, err
	}
	r.free = free
	if err := r.load(ctx); err != nil {
		free()
		return nil, err
	}
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
	case errors.Is(err, actorstore.ErrNotFound) && (r.opts.Create || r.opts.CreateLate):
		return r.create(ctx)
	case err != nil:
		return noRecord(r.actor.ID(), err)
	}
	rec, err := parseRecord(raw)
	if err != nil {
		return err
	}
	r.prior = batch.Stored(len(raw))
	r.input, r.init, r.state = rec.input, rec.init, rec.state
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

// create makes the record of a new actor, and stores it unless that is left to the first
// commit that changes it. The commit would refuse one that is too large as well; but the
// caller should be told that it was the input.
func (r *Record) create(ctx context.Context) error {
	r.state = undefined
	if len(r.opts.Input) > 0 {
		if err := wellformed("input", r.opts.Input); err != nil {
			return err
		}
		r.input = bytes.Clone(r.opts.Input)
	}
	value := appendRecord(nil, &record{input: r.input, init: true, state: r.state})
	if len(value) > r.limit {
		return &SizeError{"input", len(value), r.limit}
	}
	if r.prior = batch.Absent; !r.opts.Create {
		return nil
	}
	var b batch.Batch
	b.PutPrior(recordKey(), value, r.prior)
	r.init, r.prior = true, batch.Stored(len(value))
	return r.actor.Commit(ctx, &b)
}

// wellformed checks that a value is one in CBOR.
func wellformed(what string, value []byte) error {
	if err := cbor.Valid(value); err != nil {
		return fmt.Errorf("persist: %s: %w", what, err)
	}
	return nil
}

// usable says why no call may go on.
//
// +checklocks:r.mu
func (r *Record) usable() error {
	if r.gate.Closed() {
		return ErrClosed
	}
	return r.actor.Err()
}

// check is usable for a caller that doesn't have the lock.
func (r *Record) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usable()
}

// RawInput returns what the actor was created with, in CBOR, nil for nothing. It must not be
// changed.
func (r *Record) RawInput() []byte { return r.input }

// RawState returns the state as it is stored, in CBOR: the undefined of JavaScript if it was
// never set. It must not be changed. Errors: ErrClosed; those of the actor.
func (r *Record) RawState() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.usable()
}

// Stored reports whether the record is stored, and not in memory alone (Options.CreateLate).
func (r *Record) Stored() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.prior != batch.Absent
}

// Schedule returns the actor's schedule.
func (r *Record) Schedule() *Schedule { return &r.sched }

// Close ends the schedule, and waits for the action that is being called, whose context it
// cancels, and for the commits of the record that are under way. From then on the Record
// refuses everything, and what was staged fails with ErrClosed. Close has nothing to write
// and asks the engine nothing: to have on stable storage what was applied, call
// actorstore.Actor.Sync.
//
// After an error, which is the context's, the Record is open, but for its schedule, and
// Close can be called again. A second Close returns nil. An action must not call Close, nor
// may a participant of a batch.
func (r *Record) Close(ctx context.Context) error {
	if err := r.sched.stop(ctx); err != nil {
		return err
	}
	if err := r.gate.Close(ctx); err != nil {
		return err
	}
	r.end.Do(r.shut)
	return nil
}

// shut ends what runs beside the calls.
func (r *Record) shut() {
	r.sched.shut()
	if r.ownClock {
		r.sched.clock.Close()
	}
	r.free()
}

// commit lands b, which makes one change, durably.
func (r *Record) commit(ctx context.Context, b *batch.Batch) error {
	err := r.check()
	if err == nil {
		err = r.actor.Commit(ctx, b)
	}
	b.Abort(err) // settled already, unless it wasn't committed
	return err
}
