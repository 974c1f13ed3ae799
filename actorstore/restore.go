package actorstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/batch"
)

// A Restoration makes an actor what it was: see Apply. Only From must be set.
type Restoration struct {
	// From is an earlier state of the actor, as a rule. It may be of another Store, on another engine.
	From *Snapshot
	// Wake has the actor woken at once, to do what the state says is due. Else it sleeps until it is called, or woken by SetWake or WakeBy.
	Wake bool
	// Attributes is called as ForkOptions.Attributes is.
	Attributes func(ctx context.Context, from Reader, at *Attributes) error
	// Amend, unless it is nil, is called last, with the actor as it is and with the state, and may stage writes with b beyond what Apply does. An
	// error ends it.
	Amend func(ctx context.Context, now, from Reader, b *batch.Batch) error
	// MaxBytes bounds what is written: the keys and values in which the actor and the state differ. 0 means 512 MiB.
	MaxBytes int64
	// Progress, unless it is nil, is called now and then, with how many bytes of the state were compared.
	Progress func(read int64)
}

// maxRestore is the default of Restoration.MaxBytes.
const maxRestore = 512 << 20

// Apply makes the actor what From shows in one commit, which is on stable storage when Apply returns: what
// the state has, the actor has then, and nothing else. It reads both and writes only what differs.
//
// What belongs to the actor and not to its content stays as it is: its name, its usage, the inspector's token, the letters that it has
// sent and that haven't come, how the next ones are numbered, and what has come from which sender: a receiver would
// drop a number that it knows, or take a letter twice. Numbers of commits go on, too. Connections are removed: their clients have seen what
// is gone. Whatever the state says is due waits until the actor is called, or woken (Wake).
//
// What keeps data of the actor in memory must be closed before. A keeper of a namespace is ErrKept; see Actor.Keep.
//
// Errors: ErrUnknownActor if From is of an actor that was never written to; ErrLayout if it has another layout; batch.ErrTooLarge beyond MaxBytes, or if the
// engine takes no commit of that size; those of Actor.Commit and of reading. After any error but ErrPoisoned the actor is as it was.
func (r *Restoration) Apply(ctx context.Context, a *Actor) error {
	if err := (&restorer{Actor: a, from: r.From, opts: r}).run(ctx); err != nil {
		return fmt.Errorf("actorstore: restore actor %s: %w", a.id, err)
	}
	return nil
}

// A restorer is one call of Apply.
type restorer struct {
	*Actor
	from *Snapshot
	opts *Restoration
	size int64 // of what is staged
	read int64
}

func (a *restorer) run(ctx context.Context) error {
	switch {
	case a.from.Seq() == 0:
		return ErrUnknownActor
	case a.from.Layout() != a.layout:
		return fmt.Errorf("%w: the state has %v, and the actor %v", ErrLayout, a.from.Layout(), a.layout)
	}
	for n := range a.kept {
		if a.kept[n].Load() {
			return fmt.Errorf("%w: %d", ErrKept, n)
		}
	}
	of, err := a.from.attributes(ctx, a.opts.Attributes)
	if err != nil {
		return err
	}
	b := batch.Batch{OverQuota: true} // what was stored once may be stored again
	if err := a.StageWake(&b, Wake{}); err != nil {
		return err
	}
	if a.opts.Wake {
		if err := a.StageWake(&b, Wake{At: time.UnixMilli(a.store.millis())}); err != nil {
			return err
		}
	}
	a.StageAttributes(&b, func(at *Attributes) error {
		of.Slept = at.Slept
		*at = of
		return nil
	})
	b.Late(func(b *batch.Batch) error { return a.stage(ctx, b) }) // with the commit lock held
	return a.Commit(ctx, &b)
}

// stage stages what differs.
func (a *restorer) stage(ctx context.Context, b *batch.Batch) (err error) {
	now, err := a.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	if err := a.keys(ctx, now, b); err != nil {
		return err
	}
	if err := a.notesOf(ctx, now, b); err != nil {
		return err
	}
	if a.opts.Amend != nil {
		return a.opts.Amend(ctx, now, a.from, b)
	}
	return nil
}

// keys stages the keys that differ.
func (a *restorer) keys(ctx context.Context, now *Snapshot, b *batch.Batch) error {
	return merge(now.List(ctx, ListOptions{}), a.from.List(ctx, ListOptions{}), func(e *Entry) []byte { return e.Key }, func(is, was *Entry) error {
		if was != nil {
			a.progress(was)
		}
		switch {
		case was != nil && restored(was.Key, is == nil):
			prior := batch.Absent
			if is != nil {
				if bytes.Equal(is.Value, was.Value) {
					return nil
				}
				prior = batch.Stored(len(is.Value))
			}
			b.PutPrior(was.Key, bytes.Clone(was.Value), prior)
			return a.grow(quota.Cost(was.Key, int64(len(was.Value))))
		case is != nil && !stays(is.Key):
			b.DeletePrior(is.Key, batch.Stored(len(is.Value)))
			return a.grow(quota.Cost(is.Key, 0))
		}
		return nil
	})
}

// notesOf stages the notes that differ.
func (a *restorer) notesOf(ctx context.Context, now *Snapshot, b *batch.Batch) error {
	return merge(now.Notes(ctx, nil), a.from.Notes(ctx, nil), func(n *Note) []byte { return n.Key }, func(is, was *Note) error {
		var n Note
		switch {
		case was == nil:
			n.Key = bytes.Clone(is.Key)
		case is == nil || !bytes.Equal(is.Value, was.Value):
			n.Key, n.Value = bytes.Clone(was.Key), append([]byte{}, was.Value...)
		default:
			return nil
		}
		return cmp.Or(a.grow(int64(len(n.Key)+len(n.Value))), a.StageNote(b, n.Key, n.Value))
	})
}

// grow counts what is staged.
func (a *restorer) grow(n int64) error {
	if limit := cmp.Or(a.opts.MaxBytes, maxRestore); n > limit-a.size {
		return &batch.LimitError{Err: batch.ErrTooLarge, What: "bytes that a restore writes in one commit", Size: int(a.size + n), Limit: int(limit)}
	}
	a.size += n
	return nil
}

// progressEvery is how many bytes are read between two calls of Restoration.Progress.
const progressEvery = 1 << 20

func (a *restorer) progress(e *Entry) {
	was := a.read
	if a.read += quota.Cost(e.Key, int64(len(e.Value))); a.opts.Progress != nil && a.read/progressEvery > was/progressEvery {
		a.opts.Progress(a.read)
	}
}

// merge calls fn with what either sequence yields, in the order of the keys: with both where they have the same key, and nil for what one of them
// lacks. An error of fn, or of a sequence, ends it.
func merge[T any](a, b iter.Seq2[T, error], key func(*T) []byte, fn func(a, b *T) error) error {
	nextA, stopA := iter.Pull2(a)
	defer stopA()
	nextB, stopB := iter.Pull2(b)
	defer stopB()
	x, errA, onA := nextA()
	y, errB, onB := nextB()
	for onA || onB {
		if err := cmp.Or(errA, errB); err != nil {
			return err
		}
		order := 0
		switch {
		case !onB:
			order = -1
		case !onA:
			order = 1
		default:
			order = bytes.Compare(key(&x), key(&y))
		}
		var p, q *T
		if order <= 0 {
			p = &x
		}
		if order >= 0 {
			q = &y
		}
		if err := fn(p, q); err != nil {
			return err
		}
		if p != nil {
			x, errA, onA = nextA()
		}
		if q != nil {
			y, errB, onB = nextB()
		}
	}
	return nil
}
