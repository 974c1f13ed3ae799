// Package queue is the message queue of an actor: messages with a name and a body, kept
// in the actor's own keys in the order in which they came.
//
// A message is stored until it is settled. Receive hands it out under a lease: it is
// invisible until the lease is over, Complete removes it, Nack gives it back, and
// without either it comes back by itself; after Options.MaxReceive times it goes to
// a dead-letter name instead. With ReceiveOptions.AtMostOnce it is removed by the very
// commit that hands it out. Messages can be delayed, deduplicated or replaced by a key of the
// sender's, handed out by priority, and waited for: EnqueueAndWait returns what Complete answers.
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
// it. The order of messages is that of priorities and ids alone.
package queue

// Queue is the front door of a few layers. Each knows those below it; besides, a Tx knows its committer, and the contents list the
// drafts that are open.
//
//	Queue      what callers may do
//	committer  commits, and what the bell rings for
//	bell       when the alarm rings
//	Tx         what one batch does: a draft that claims messages, and a landing that commits it
//	contents   what memory knows: index, numbers, keyTable, retry, answers, listeners; with the lock
//	settings   what Open fixes
//
// Files, from the top down:
//
//	queue.go enqueue.go receive.go list.go check.go carry.go deadletter.go hand.go message.go tx.go land.go together.go commit.go bell.go
//	wait.go linger.go room.go debounce.go draft.go change.go stats.go contents.go numbers.go retry.go keyed.go send.go options.go answer.go
//	listen.go index.go order.go walk.go record.go failure.go lease.go keys.go value.go id.go errors.go metrics.go

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/groupcommit"
)

// A Queue is the queue of an actor. It is safe for concurrent use. Its methods return
// the actor's errors (actorstore.ErrFenced, ErrPoisoned, ErrClosed, …) as they are.
type Queue struct {
	committer
	free func()    // gives the namespace back
	end  sync.Once // of what Close does when no commit is under way
}

// Open reads the queue of an actor; nil opts are the zero Options. It writes nothing.
// There can be one Queue of an actor at a time: another is actorstore.ErrKept. It must be
// closed before the actor is.
//
// The queue's metadata are rebuilt in memory if they are missing, damaged, or behind the
// messages: an id is never given twice, and they are stored right with the next commit.
// Messages that can't be read are left where they are: see Quarantined.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Queue, error) {
	q := &Queue{}
	q.actor, q.bell.of, q.line = a, &q.contents, groupcommit.New[call](1)
	if opts != nil {
		q.opts = *opts
	}
	if err := q.settings.init(); err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	free, err := a.Keep(actorstore.NamespaceQueue)
	if err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.free = free
	q.contents.init()
	if err := q.load(ctx); err != nil {
		free()
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	q.bell.source = q.clock.Lasting("queue", q.ring)
	q.bell.arm()
	return q, nil
}

// Close ends the queue, not the actor. A call that waits for a message or an answer
// gets ErrClosed, and what is staged can't be committed any more; Close waits for commits of it
// that are under way. What is stored and due later goes on counting in Options.Clock, so
// that the program that puts the actor to sleep knows when it must be awake. A second Close returns
// when the first is over. Participants of a batch must not call it.
func (q *Queue) Close() error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	q.mu.Unlock()
	q.cancel()
	_ = q.works.Close(context.Background()) // which doesn't give up
	q.end.Do(func() {
		q.bell.arm()
		q.bell.source.Close()
		if q.ownClock {
			q.clock.Close()
		}
		q.free()
	})
	return nil
}

// In returns what b does to the queue, which lands with everything else in b, or not at
// all. There is one Tx for each batch: In returns the same one every time.
func (q *Queue) In(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, &q.committer, func() *participant { return &participant{q: &q.committer, batch: b, draft: draft{of: &q.contents}} }))
}

// Discard removes what is quarantined under a key of the actor, durably. Any other key is
// ErrGone.
func (q *Queue) Discard(ctx context.Context, key []byte) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.discard(key) })
}

// Delete removes messages, as Tx.Delete does, and returns which of them were there, in
// the order of ids. Many are removed by several commits, each within the limits of a
// batch; on an error what is returned has been removed.
func (q *Queue) Delete(ctx context.Context, ids ...ID) (removed []ID, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return q.delete(ctx, ids, false, func(err error) bool { return errors.Is(err, ErrGone) })
}

// DeleteReady is Delete of those messages that are ready in the moment of their commit: what is leased or delayed stays.
func (q *Queue) DeleteReady(ctx context.Context, ids ...ID) (removed []ID, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return q.delete(ctx, ids, true, goneOrBusy)
}

func goneOrBusy(err error) bool { return errors.Is(err, ErrGone) || errors.Is(err, ErrBusy) }

// delete is Delete of sorted ids, or DeleteReady, where skip says for which errors one is left out.
func (q *Queue) delete(ctx context.Context, ids []ID, only bool, skip func(error) bool) (removed []ID, err error) {
	// With the metadata so many fill one sub-batch.
	most := max(q.actor.Limits().Entries-1, 1)
	for len(ids) > 0 {
		n := min(len(ids), most)
		var some []ID
		err := q.commit(ctx, func(tx *Tx) error {
			for _, id := range ids[:n] {
				err := tx.delete(id, only)
				switch {
				case err == nil:
					some = append(some, id)
				case !skip(err):
					return err
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed, ids = append(removed, some...), ids[n:]
	}
	return removed, q.check(ctx)
}

// Purge removes the messages of the names, or all if there are none, as Delete does, but
// for those that batches have and those that come meanwhile. It returns how many.
func (q *Queue) Purge(ctx context.Context, names ...string) (n int, err error) {
	removed, err := q.delete(ctx, q.ids(names), false, goneOrBusy)
	return len(removed), err
}

// Redrive makes messages of dead letters again: under the names that they had, with new ids behind all others, and with all their
// attempts, as if none had failed. It returns how many. The time at which they were enqueued first stays.
//
// Each dead letter goes in the commit that stores its message, some in one commit, the oldest first. After an error those that were
// counted are messages, and the others are dead letters still. What becomes a dead letter meanwhile stays one, and so does what is
// leased or delayed. The number of messages stays the same, so that the queue may be full, and no value gets longer.
//
// Errors: ErrUnknownName, *InvalidError for a Limit below 0, ErrNoIDs, and those of actorstore.Actor.Commit.
func (q *Queue) Redrive(ctx context.Context, opts *RedriveOptions) (n int, err error) {
	o := RedriveOptions{}
	if opts != nil {
		o = *opts
	}
	if n, err = o.run(ctx, &q.committer); err != nil {
		return n, fmt.Errorf("queue: redrive: %w", err)
	}
	return n, nil
}

// Stats returns what the queue holds, names in order. It looks at every message in memory.
func (q *Queue) Stats() Stats { return q.statsIn(nil) }

// Len returns how many messages there are, visible or not.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.index.byID)
}

// Quarantined returns what is set aside, in the order in which it was found.
func (q *Queue) Quarantined() []Quarantined {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.bad)
}
