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
//	carry.go wait.go list.go check.go receive.go enqueue.go message.go settle.go open.go deadletter.go commit.go land.go bell.go hand.go tx.go
//	room.go draft.go change.go queue.go contents.go numbers.go retry.go keyed.go listen.go send.go options.go answer.go index.go order.go record.go failure.go lease.go walk.go keys.go value.go id.go
//	errors.go metrics.go

import (
	"sync"

	"github.com/greenroomdb/greenroom/batch"
)

// A Queue is the queue of an actor. It is safe for concurrent use. Its methods return
// the actor's errors (actorstore.ErrFenced, ErrPoisoned, ErrClosed, …) as they are.
type Queue struct {
	committer
	free func()    // gives the namespace back
	end  sync.Once // of what Close does when no commit is under way
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

// In returns what b does to the queue, which lands with everything else in b, or not at
// all. There is one Tx for each batch: In returns the same one every time.
func (q *Queue) In(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, &q.committer, func() *participant { return &participant{q: &q.committer, batch: b, draft: draft{of: &q.contents}} }))
}
