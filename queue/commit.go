package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/drain"
	"github.com/greenroomdb/greenroom/internal/groupcommit"
)

// A committer commits what is staged, in batches of the queue's own or of callers. It knows which commits are under way and which
// are on stable storage, and makes dead letters when the bell rings. The lock of the contents doesn't guard its fields: each is
// safe for concurrent use, or set by Open alone.
type committer struct {
	contents
	bell    bell
	works   drain.Gate              // of commits under way, and what the queue does by itself; contents.closed is set before it is
	durable atomic.Uint64           // the newest commit that is known to be on stable storage
	batches sync.Pool               // of *work
	line    *groupcommit.Line[call] // of calls that wait to commit
	calls   sync.Pool               // of *waiter

	ctx    context.Context // of what the queue does by itself
	cancel context.CancelFunc
}

// commit stages and commits a batch of its own. What stage returns an error for is given
// up.
func (q *committer) commit(ctx context.Context, stage func(tx *Tx) error) error {
	return q.commitThen(ctx, stage, nil)
}

// commitThen is commit, and calls applied, unless it is nil, when the batch is: another one may begin then.
func (q *committer) commitThen(ctx context.Context, stage func(tx *Tx) error, applied func()) error {
	q.mu.Lock()
	err := q.usable()
	q.mu.Unlock()
	if err != nil {
		return err
	}
	w, _ := q.batches.Get().(*work)
	if w == nil {
		w = &work{}
		w.tx.q, w.tx.batch, w.tx.draft.of, w.tx.own = q, &w.batch, &q.contents, true
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
		if applied != nil {
			w.batch.OnCommit(applied)
		}
		err = q.actor.Commit(ctx, &w.batch)
		q.landed(&w.tx, err)
	}
	// Whatever became of it, its memory isn't used any more.
	w.batch.Reset()
	w.tx.draft.reset()
	w.tx.landing.reset()
	over = true
	q.batches.Put(w)
	return err
}

// landed follows a commit of the queue's own, which is durable unless there is an error.
func (q *committer) landed(tx *Tx, err error) {
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

// tellLater is tell for a caller's batch: the queue isn't told whether and when that gets
// durable. With the next sync it is.
//
// +checklocks:q.mu
func (q *committer) tellLater(all []told) {
	switch {
	case len(all) == 0:
	case !q.works.Enter():
		tell(all, ErrClosed)
	default:
		go func() {
			defer q.works.Leave()
			err := q.actor.Sync(q.ctx)
			if q.ctx.Err() != nil {
				err = ErrClosed
			}
			tell(all, err)
		}()
	}
}

// retryKeys calls commit, again and again while another batch is about to use a key: what comes
// of that decides.
func (q *committer) retryKeys(ctx context.Context, commit func() error) error {
	for {
		err := commit()
		if err == nil {
			return nil
		}
		var busy *busyKey
		if !errors.As(err, &busy) {
			return err
		}
		if _, err := await(ctx, &q.contents, busy.settled, nil); err != nil {
			return err
		}
	}
}
