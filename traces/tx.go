package traces

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
)

// A Tx is what one batch does to the traces: see Traces.In. Like the batch, it is not safe
// for concurrent use.
type Tx struct {
	st    *store
	batch *batch.Batch

	chunks  []stagedChunk
	emptied optional[int64] // the bucket whose chunks the batch removes
	stale   [][]byte        // keys of notes that it removes; see removeNotes
	before  int64

	// While a commit is under way the first put chunks are in the batch, and the others are
	// the index as it leaves it: what has changed, and how many notes there are more. Batches
	// are committed one after the other, under the actor's commit lock.
	entry   batch.Entry
	put     int                   // +checklocks:st.mu
	buckets map[int64]bucketNotes // +checklocks:st.mu
	more    int                   // +checklocks:st.mu
}

// A stagedChunk is a chunk that lands with a batch, as it is stored.
type stagedChunk struct {
	*pending
	value []byte
	prior batch.Prior
}

// A participant is a Tx as its batch sees it.
type participant Tx

// in returns what b does to the traces: see Traces.In.
func (st *store) in(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, st, func() *participant { return &participant{st: st, batch: b} }))
}

// Flush makes everything that was recorded so far land with the batch. If the batch doesn't
// land it is written as usual. What is being written at that moment lands by itself. ctx is
// for the one read that the first chunk of a bucket takes.
//
// Errors: ErrClosed, batch.ErrSettled, and those of actorstore. Nothing is staged then.
func (tx *Tx) Flush(ctx context.Context) error {
	st := tx.st
	claimed, err := tx.claim()
	if err != nil {
		return err
	}
	for _, p := range claimed {
		err = errors.Join(err, st.resolveAll(ctx, p))
	}
	if err != nil {
		st.mu.Lock()
		for _, p := range claimed {
			st.unclaim(p)
		}
		st.unlock()
		st.kick()
		return fmt.Errorf("traces: flush: %w", err)
	}
	for _, p := range claimed {
		tx.stage(p)
	}
	return nil
}

// claim takes everything that is not being written, and is in no other batch.
func (tx *Tx) claim() (claimed []*pending, err error) {
	st := tx.st
	st.mu.Lock()
	defer st.unlock()
	if err := st.usable(); err != nil {
		return nil, err
	}
	if err := tx.batch.EnlistAgain(st, (*participant)(tx)); err != nil {
		return nil, err
	}
	st.cutAll()
	for _, p := range st.queue {
		if p.state == waiting {
			p.state = staged
			claimed = append(claimed, p)
		}
	}
	return claimed, nil
}

// stage has a chunk, whose bucket is resolved, land with the batch.
func (tx *Tx) stage(p *pending) {
	st := tx.st
	st.mu.Lock()
	tried := p.tries > 0
	p.tries++
	st.unlock()
	// With a prior the commit reads nothing: the id is above all that are stored.
	prior := batch.Absent
	if tried {
		prior = batch.PriorUnknown // an attempt may have landed
	}
	tx.chunks = append(tx.chunks, stagedChunk{p, p.encode(), prior})
}

// idle reports whether the batch does nothing to the traces.
func (tx *Tx) idle() bool { return len(tx.chunks) == 0 && !tx.emptied.set && len(tx.stale) == 0 }

// Late stages chunks, and the notes about them: what these say depends on the chunks that
// land before. All notes are made anew if it is called again.
func (p *participant) Late(b *batch.Batch) error {
	tx := (*Tx)(p)
	st := tx.st
	st.mu.Lock()
	defer st.unlock()
	if tx.idle() {
		return nil
	}
	if st.closed {
		return ErrClosed // Traces opened since may have the places of its chunks
	}
	if first, _ := tx.entry.Enter(b, &st.commits); first {
		tx.put = 0
	}
	for _, c := range tx.chunks[tx.put:] {
		b.PutPrior(appendChunkKey(st.actor.Layout(), nil, c.key()), c.value, c.prior)
	}
	tx.put = len(tx.chunks)
	tx.buckets, tx.more = map[int64]bucketNotes{}, 0
	for _, c := range tx.chunks {
		if c.state == gone {
			return ErrClosed // recording has ended
		}
		if err := tx.enter(b, c.pending, st.since(c.pending)); err != nil {
			return err
		}
	}
	return errors.Join(tx.empty(b), tx.forget(b))
}

// Landed takes over what the batch has changed.
func (p *participant) Landed() {
	tx := (*Tx)(p)
	st := tx.st
	st.mu.Lock()
	defer st.unlock()
	if tx.idle() {
		return
	}
	st.index.follow(tx)
	st.written++
	for _, c := range tx.chunks {
		st.landed(c.pending)
	}
}

// Failed gives back what was claimed. Chunks that are there, if the batch landed in part,
// are written again as they were.
func (p *participant) Failed(error, bool) {
	tx := (*Tx)(p)
	st := tx.st
	st.mu.Lock()
	defer st.unlock()
	for _, c := range tx.chunks {
		if c.state == staged {
			st.unclaim(c.pending)
			st.kick()
		}
	}
}
