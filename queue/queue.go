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
//	tx.go queue.go keyed.go listen.go send.go options.go answer.go index.go order.go record.go failure.go lease.go walk.go keys.go value.go id.go
//	errors.go metrics.go

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/internal/drain"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
)

// A Queue is the queue of an actor. It is safe for concurrent use. Its methods return
// the actor's errors (actorstore.ErrFenced, ErrPoisoned, ErrClosed, …) as they are.
type Queue struct {
	settings
	free func() // gives the namespace back

	source  *alarm.Source
	ctx     context.Context // of what the alarm does
	cancel  context.CancelFunc
	works   drain.Gate    // of commits under way, and what the queue does by itself; closed is set before it is
	closing chan struct{} // closed by Close
	end     sync.Once     // of what Close does when works is closed
	durable atomic.Uint64 // the newest commit that is known to be on stable storage

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
