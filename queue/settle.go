package queue

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Complete removes a message that was received, durably, and gives the response, any
// value or a Raw, to those that wait for it; nil is null.
//
// Errors: ErrGone when the message isn't there any more, ErrLeaseOver when the receipt
// isn't good any more, ErrBusy, *InvalidError for a response that can't be encoded, and
// those of actorstore.Actor.Commit.
func (q *Queue) Complete(ctx context.Context, r Receipt, response any) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.Complete(r, response) })
}

// Nack gives a message that was received back, durably: it is visible after the delay.
// If it was handed out Options.MaxReceive times it becomes a dead letter instead: at once,
// or, if the actor has no room for that, as soon as it has.
//
// why is the error that the attempt ended with: its text is stored with the message, and its
// code, which is what a method ErrorCode() string of it says, or a word for its kind; see
// Failure. nil is for a message that is given back without having failed.
//
// Errors: as Complete.
func (q *Queue) Nack(ctx context.Context, r Receipt, delay time.Duration, why error) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.Nack(ctx, r, delay, why) })
}

// Extend has the lease of a message that was received end d from now, durably; the
// receipt stays good.
//
// Errors: as Complete.
func (q *Queue) Extend(ctx context.Context, r Receipt, d time.Duration) error {
	return q.commit(ctx, func(tx *Tx) error { return tx.Extend(ctx, r, d) })
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
