// Package queue is the message queue of an actor: messages with a name and a body, kept
// in the actor's own keys in the order in which they came.
//
// A message is stored until it is settled. Receive hands it out under a lease: it is
// invisible until the lease is over, Complete removes it, Nack gives it back, and
// without either it comes back by itself; after Options.MaxReceive times it goes to
// a dead-letter name instead. With ReceiveOptions.AtMostOnce it is removed by the very
// commit that hands it out. Messages can be delayed, deduplicated by a key of the
// sender's, and waited for: EnqueueAndWait returns what Complete answers.
//
// # Staging
//
// Every operation commits at once, or is staged by a Tx in a batch that the caller commits,
// so that it lands with everything else there:
//
//	err := db.Update(ctx, func(tx *vfs.Tx) error { // receive, write and complete: one commit
//		in := q.In(tx.Batch())
//		msgs, err := in.Receive(ctx, nil)
//		…
//		return in.Complete(msgs[0].Receipt(), nil)
//	})
//
// What staging claims, ids, messages, keys, is reserved at once: two staged Enqueues
// never share an id, two staged Receives never a message. It is given back if the batch
// doesn't land. Nothing else in memory changes before the commit.
//
// # Memory and cost
//
// Open reads the queue once, page by page, and keeps an index of it: per message about
// two hundred bytes, and its body as long as Options.MemoryBytes have room. After that a
// commit reads nothing, and one receive costs the same whatever waits behind it: the one
// read of a body that isn't in memory. Enqueue, Receive and Complete are one engine
// commit each.
//
// # What it is not
//
// A queue belongs to one actor and is used by its owner: it isn't a broker between
// processes. Bodies are opaque but for being CBOR, as package internal/cbor describes
// it. There are no priorities, and no order but that of ids.
package queue

// Files, from the top down:
//
//	settle.go list.go receive.go ring.go load.go room.go answer.go enqueue.go keyed.go tx.go receipt.go
//	wait.go check.go queue.go order.go record.go index.go keys.go message.go errors.go metrics.go
//	walk.go

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/internal/drain"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/part"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// MaxMessages bounds the messages of all names together: more are a *FullError. 0
	// means 1000, a negative value no bound. Dead letters are let in.
	MaxMessages int
	// MaxMessageBytes bounds a message as it is stored, in bytes: a larger one is a
	// *SizeError. 0 means the largest value there can be, which is the actor's limit on
	// values less what a lease and the name of a dead letter add. A larger value is
	// ErrOptions.
	MaxMessageBytes int
	// Visibility is how long a received message stays invisible, unless the receiver
	// says otherwise. 0 means 30 seconds; to the millisecond.
	Visibility time.Duration
	// MaxReceive is how often a message is handed out before it becomes a dead letter.
	// 0 means for ever.
	MaxReceive int
	// DeadLetter is appended to a message's name when it becomes a dead letter; names
	// that end with it have no dead letters. "" means ".dlq".
	DeadLetter string
	// Names, unless it is nil, are the only names that Enqueue takes: others are
	// ErrUnknownName.
	Names []string
	// Plain keeps leases, delays and counts in memory alone, for actors that are also
	// opened by readers that don't know these fields: what is stored then means the same
	// to all. A restart ends every lease; a delayed Enqueue is ErrPlain. What others
	// have stored with these fields is read all the same.
	Plain bool
	// KeyWindow is how long a sender's key is remembered. 0 means 5 minutes.
	KeyWindow time.Duration
	// MaxKeys bounds the keys that are remembered: more are ErrKeysFull. 0 means 10,000,
	// and there may be at most actorstore.MaxNotes.
	MaxKeys int
	// MemoryBytes bounds the bodies that are kept in memory, in bytes. 0 means 1 MiB, a
	// negative value none.
	MemoryBytes int
	// Env is what the parts of an actor share. Its clock rings for delayed messages and the ends of leases.
	part.Env
}

// A Queue is the queue of an actor. It is safe for concurrent use. Its methods return
// the actor's errors (actorstore.ErrFenced, ErrPoisoned, ErrClosed, …) as they are.
type Queue struct {
	actor *actorstore.Actor
	opts  Options
	names map[string]bool // nil: any
	limit int             // of a stored value
	free  func()          // gives the namespace back
	log   *slog.Logger
	meter metrics.Meter

	clock    *alarm.Clock
	ownClock bool
	source   *alarm.Source
	ctx      context.Context // of what the alarm does
	cancel   context.CancelFunc
	works    drain.Gate    // of commits under way, and what the queue does by itself; closed is set before it is
	closing  chan struct{} // closed by Close
	durable  atomic.Uint64 // the newest commit that is known to be on stable storage

	batches sync.Pool // of *work

	// arming orders the settings of the alarm. It is taken before mu.
	arming sync.Mutex
	armed  ringing // what source is set to  +checklocks:arming

	// mu is held for memory alone: never while the engine is asked, nor during a commit,
	// whose hooks take it.
	mu       sync.Mutex
	failed   error                  // why the index can't be trusted  +checklocks:mu
	index    index                  // +checklocks:mu
	meta     metadata               // as stored: ids below next are taken  +checklocks:mu
	rebuilt  bool                   // what is stored of them is missing or wrong  +checklocks:mu
	landing  metadata               // as the commit that is under way leaves them  +checklocks:mu
	prior    batch.Prior            // of the metadata's value  +checklocks:mu
	next     ID                     // the next id to reserve  +checklocks:mu
	shown    ID                     // above all that others were told of  +checklocks:mu
	reserved int                    // messages that are staged and count  +checklocks:mu
	open     []*Tx                  // those that have staged something  +checklocks:mu
	answers  map[ID][]*Answer       // +checklocks:mu
	waiters  map[*listener]struct{} // +checklocks:mu
	keys     keyTable               // +checklocks:mu
	bad      []Quarantined          // +checklocks:mu
	retryAt  int64                  // when dead letters are tried again  +checklocks:mu
	backoff  time.Duration          // +checklocks:mu
	lacking  int64                  // the bytes that dead letters wait for, 0: none does  +checklocks:mu
	closed   bool                   // +checklocks:mu
}

// Defaults of Options.
const (
	defaultMaxMessages = 1000
	defaultVisibility  = 30 * time.Second
	defaultDeadLetter  = ".dlq"
	defaultKeyWindow   = 5 * time.Minute
	defaultMaxKeys     = 10_000
	defaultMemoryBytes = 1 << 20
)

// Open reads the queue of an actor; nil opts are the zero Options. It writes nothing.
// There can be one Queue of an actor at a time: another is actorstore.ErrKept. It must be
// closed before the actor is.
//
// The queue's metadata are rebuilt in memory if they are missing, damaged, or behind the
// messages: an id is never given twice, and they are stored right with the next commit.
// Messages that can't be read are left where they are: see Quarantined.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Queue, error) {
	q := &Queue{
		actor: a, closing: make(chan struct{}),
		answers: map[ID][]*Answer{}, waiters: map[*listener]struct{}{},
	}
	if opts != nil {
		q.opts = *opts
	}
	if err := q.options(); err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	free, err := a.Keep(actorstore.NamespaceQueue)
	if err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.free = free
	q.index.init(q.opts.MemoryBytes)
	q.keys.init()
	if err := q.load(ctx); err != nil {
		free()
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	q.source = q.clock.Lasting("queue", q.ring)
	q.arm()
	return q, nil
}

// burialRoom is what a commit that makes a dead letter takes besides its value, in bytes.
const burialRoom = 3*(maxMessageKey+batch.WrapperBytes) + metadataSize

// options checks the options and puts the defaults in.
func (q *Queue) options() error {
	o := &q.opts
	o.MaxMessages = cmp.Or(o.MaxMessages, defaultMaxMessages)
	o.Visibility = cmp.Or(o.Visibility, defaultVisibility)
	o.DeadLetter = cmp.Or(o.DeadLetter, defaultDeadLetter)
	o.KeyWindow = cmp.Or(o.KeyWindow, defaultKeyWindow)
	o.MaxKeys = cmp.Or(o.MaxKeys, defaultMaxKeys)
	o.MemoryBytes = cmp.Or(o.MemoryBytes, defaultMemoryBytes)
	limits := q.actor.Limits()
	q.limit = limits.ValueSize
	// As a dead letter it takes a commit with the message before and the metadata, and the
	// length of its name may take a byte more.
	most := min(q.limit, limits.Payload-burialRoom) - leaseRoom - len(o.DeadLetter) - 1
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, most)
	switch {
	case o.MaxMessageBytes > most || o.MaxMessageBytes < 0:
		return fmt.Errorf("%w: MaxMessageBytes is %d, and a value may have %d", ErrOptions, o.MaxMessageBytes, most)
	case o.Visibility < time.Millisecond:
		return fmt.Errorf("%w: Visibility is %v", ErrOptions, o.Visibility)
	case o.MaxReceive < 0 || o.MaxReceive > math.MaxInt32:
		return fmt.Errorf("%w: MaxReceive is %d", ErrOptions, o.MaxReceive)
	case o.KeyWindow < 0:
		return fmt.Errorf("%w: KeyWindow is %v", ErrOptions, o.KeyWindow)
	case o.MaxKeys < 0 || o.MaxKeys > actorstore.MaxNotes:
		return fmt.Errorf("%w: MaxKeys is %d, limit %d", ErrOptions, o.MaxKeys, actorstore.MaxNotes)
	}
	if o.Names != nil {
		q.names = map[string]bool{}
		for _, name := range o.Names {
			q.names[name] = true
		}
	}
	if q.clock = o.Clock; q.clock == nil {
		q.clock, q.ownClock = alarm.New(nil), true
	}
	if q.log = o.Logger; q.log == nil {
		q.log = slog.Default()
	}
	q.meter.To = o.Metrics
	return nil
}

// Close ends the queue, not the actor. A call that waits for a message or an answer
// gets ErrClosed, and what is staged can't be committed any more; Close waits for commits of it
// that are under way. What is stored and due later goes on counting in Options.Clock, so
// that the program that puts the actor to sleep knows when it must be awake. A second Close does
// nothing. Participants of a batch must not call it.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	close(q.closing)
	q.mu.Unlock()
	q.cancel()
	_ = q.works.Close(context.Background()) // which doesn't give up
	q.arm()
	q.source.Close()
	if q.ownClock {
		q.clock.Close()
	}
	q.free()
	return nil
}

// check says why no call may go on; it is the actor's word that it is still ours.
func (q *Queue) check(ctx context.Context) error {
	q.mu.Lock()
	err := q.usable()
	q.mu.Unlock()
	if err != nil {
		return err
	}
	return q.actor.Owned(ctx)
}

// usable says why nothing may be staged or told.
//
// +checklocks:q.mu
func (q *Queue) usable() error {
	switch {
	case q.closed:
		return ErrClosed
	case q.failed != nil:
		return q.failed
	}
	return q.actor.Err()
}

// commit stages and commits a batch of its own. What stage returns an error for is given
// up.
func (q *Queue) commit(ctx context.Context, stage func(tx *Tx) error) error {
	q.mu.Lock()
	err := q.usable()
	q.mu.Unlock()
	if err != nil {
		return err
	}
	w, _ := q.batches.Get().(*work)
	if w == nil {
		w = &work{}
		w.tx.q, w.tx.batch, w.tx.own = q, &w.batch, true
	}
	w.batch.Enlist(q, (*participant)(&w.tx))
	over := false
	defer func() {
		if !over { // a panic gives back what was claimed, and the memory is not used again
			w.batch.Abort(nil)
		}
	}()
	if err = stage(&w.tx); err != nil {
		w.batch.Abort(err)
	} else {
		err = q.actor.Commit(ctx, &w.batch)
		q.landed(&w.tx, err)
	}
	// Whatever became of it, its memory isn't used any more.
	w.batch.Reset()
	w.tx.reset()
	over = true
	q.batches.Put(w)
	return err
}

// landed follows a commit of the queue's own, which is durable unless there is an error.
func (q *Queue) landed(tx *Tx, err error) {
	for err == nil {
		old := q.durable.Load()
		if old >= tx.landed || q.durable.CompareAndSwap(old, tx.landed) {
			break
		}
	}
	tell(tx.told, err)
}

// A work is a batch of the queue's own, and the memory that it takes.
type work struct {
	batch batch.Batch
	tx    Tx
}

// millis is the time of day in Unix milliseconds.
func (q *Queue) millis() int64 { return q.clock.Now().UnixMilli() }

// visibility is Options.Visibility in milliseconds.
func (q *Queue) visibility() int64 { return after(0, q.opts.Visibility) }

// after returns the millisecond at which d from now is over. Any d will do: what rounds it
// up is not added to it, which may be Forever.
func after(now int64, d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	if ms > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + ms
}

// ended reports whether an error is that of the queue's end or the caller's context. Once
// the queue is closed the actor may be, too, and a call that is under way may meet that first.
func (q *Queue) ended(ctx context.Context, err error) bool {
	if errors.Is(err, actorstore.ErrClosed) {
		select {
		case <-q.closing:
			return true
		default:
		}
	}
	return errors.Is(err, ErrClosed) || ctx.Err() != nil && errors.Is(err, ctx.Err())
}
