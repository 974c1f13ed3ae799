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
//	carry.go wait.go list.go check.go receive.go enqueue.go message.go settle.go open.go deadletter.go commit.go room.go arm.go
//	tx.go queue.go keyed.go listen.go answer.go index.go order.go record.go failure.go lease.go walk.go keys.go value.go id.go
//	errors.go metrics.go

import (
	"cmp"
	"context"
	"errors"
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
	most  int             // of one that becomes a dead letter, or is one
	tells bool            // what is stored may say which attempts have failed
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
	end      sync.Once     // of what Close does when works is closed
	durable  atomic.Uint64 // the newest commit that is known to be on stable storage

	batches sync.Pool // of *work

	// arming orders the settings of the alarm. It is taken before mu.
	arming sync.Mutex
	armed  ringing // what source is set to  +checklocks:arming

	// mu is held for memory alone: never while the engine is asked, nor during a commit,
	// whose hooks take it.
	mu       sync.Mutex
	failed   error         // why the index can't be trusted  +checklocks:mu
	index    index         // +checklocks:mu
	meta     metadata      // as stored: ids below next are taken  +checklocks:mu
	rebuilt  bool          // what is stored of them is missing or wrong  +checklocks:mu
	landing  metadata      // as the commit that is under way leaves them  +checklocks:mu
	prior    batch.Prior   // of the metadata's value  +checklocks:mu
	next     ID            // the next id to reserve  +checklocks:mu
	shown    ID            // above all that others were told of  +checklocks:mu
	reserved int           // messages that are staged and count  +checklocks:mu
	open     []*Tx         // those that have staged something  +checklocks:mu
	answers  answers       // +checklocks:mu
	waiters  listeners     // +checklocks:mu
	keys     keyTable      // +checklocks:mu
	bad      []Quarantined // +checklocks:mu
	retryAt  int64         // when dead letters are tried again  +checklocks:mu
	backoff  time.Duration // +checklocks:mu
	lacking  int64         // the bytes that dead letters wait for, 0: none does  +checklocks:mu
	closed   bool          // +checklocks:mu
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

// A Quarantined is a stored message that can't be read, a key among the messages that
// isn't a message's, or a message that was handed out often enough and for which no commit has room as
// a dead letter. It stays where it is, out of the way, until it is deleted or discarded;
// when the queue is opened again, what it is is found out anew.
type Quarantined struct {
	ID   ID     // 0 when the key isn't a message's
	Key  []byte // of the actor
	Size int    // of the value in bytes, 0 when that isn't known
	Err  error  // what is wrong with it; often wraps actorstore.ErrCorrupt or actorstore.ErrNewerFormat
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

// listen begins to wait for a visible message of the names; unlisten ends that.
func (q *Queue) listen(names []string) *listener {
	l := &listener{names, make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[l] = struct{}{}
	return l
}

func (q *Queue) unlisten(l *listener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiters, l)
}

// millis is the time of day in Unix milliseconds.
func (q *Queue) millis() int64 { return q.clock.Now().UnixMilli() }

// visibility is Options.Visibility in milliseconds.
func (q *Queue) visibility() int64 { return after(0, q.opts.Visibility) }

// room is how many bytes the actor may store besides what it does.
func (q *Queue) room() int64 { return q.actor.Limits().Storage - q.actor.Used() }

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

// lookOut is how often a waiting call asks whether the actor is still ours, where another host
// may take it over without telling.
const lookOut = time.Second

// errOver is await's for the time that is over.
var errOver = errors.New("queue: the time is over")

// await returns what comes. It ends with the context, the queue, and the actor, with their
// errors, and with errOver.
func await[T any](ctx context.Context, q *Queue, comes <-chan T, over <-chan time.Time) (came T, err error) {
	var look <-chan time.Time
	if q.actor.Leased() {
		ticker := time.NewTicker(lookOut)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case came = <-comes:
			return came, nil
		case <-over:
			return came, errOver
		case <-ctx.Done():
			return came, ctx.Err()
		case <-q.closing:
			return came, ErrClosed
		case <-q.actor.Done():
			return came, cmp.Or(q.actor.Err(), error(actorstore.ErrClosed))
		case <-look:
			if err := lost(ctx, q); err != nil {
				return came, err
			}
		}
	}
}

// lost says why nothing will come any more. While the actor's owner is known, which is
// nearly always, that is a look at memory.
func lost(ctx context.Context, q *Queue) error {
	err := q.actor.Owned(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.usable(); known != nil || !errors.Is(err, actorstore.ErrClosed) {
		return known // any other error may pass, and is for the next call to find
	}
	return err
}
