package conn

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// Everything at once: what is stored in the end is what is in memory.
func TestConcurrent(t *testing.T) {
	r := open(t, Options{})
	const workers, rounds = 8, 40
	shared := r.create(workers * rounds)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				if err := r.round(shared, w, w*rounds+i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	r.same()
	if n := len(r.set.Conns()); n != 1+workers*rounds/2 {
		t.Errorf("%d connections, want %d", n, 1+workers*rounds/2)
	}
	if n := len(shared.Subscriptions()); n != workers {
		t.Errorf("%d subscriptions of %d", n, workers)
	}
	r.healthy()
}

// round makes a connection, and every other time removes it again.
func (r *room) round(shared *Conn, w, n int) error {
	var b, after batch.Batch
	tx := r.set.In(&b)
	c, err := tx.Create(info(n))
	if err != nil {
		return err
	}
	state, err := Encode(n)
	if err != nil {
		return err
	}
	err = errors.Join(tx.SetState(c, state), tx.Subscribe(c, fmt.Sprint(w)), tx.Subscribe(shared, fmt.Sprint(w)))
	if err != nil {
		return err
	}
	if err := r.actor.Apply(ctx, &b); err != nil {
		return err
	}
	for _, c := range r.set.Subscribers(nil, "0") {
		if c.ID() == "" || c.Path() == "" || c.Record().ID != c.ID() || len(c.Parameters()) == 0 {
			return errors.New("a connection without what it began with")
		}
	}
	r.set.Conns()
	if n%2 == 0 {
		return nil
	}
	if err := r.set.In(&after).Disconnect(c); err != nil {
		return err
	}
	return r.actor.Commit(ctx, &after)
}

// To encode a record costs no memory but that of the bytes.
func TestEncodeAllocations(t *testing.T) {
	r := open(t, Options{})
	rec, dst := r.create(1).Record(), make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() { dst = rec.Append(dst[:0]) }); n != 0 {
		t.Errorf("%v allocations to encode a record, want 0", n)
	}
}
