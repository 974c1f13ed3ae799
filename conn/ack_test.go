package conn

import (
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// received is Received, without an error.
func received(t testing.TB, c *Conn, index Index) (ahead int) {
	t.Helper()
	ahead, err := c.Received(index, 10)
	must(t, err)
	return ahead
}

// After 65535 comes 0: the save that spans the wrap is acknowledged like any other.
func TestAckWraps(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	for _, index := range []Index{1, 2, 30_000, 60_000, 65_534, 65_535, 0, 1, 2, 30_000} {
		if ahead := received(t, c, index); ahead <= 0 {
			t.Errorf("message %d is %d ahead", index, ahead)
		}
		r.save()
		if got := r.acks.take(); !slices.Equal(got, []Ack{{c, index}}) {
			t.Errorf("message %d: acknowledged %v", index, got)
		}
	}
	r.crash()
	c, _ = r.set.Get(c.ID())
	if server, _ := c.Indices(); server != 30_000 {
		t.Errorf("index %d after a restart, want 30000", server)
	}
}

// However many messages come between two saves, the last one is acknowledged: what is news
// can't be told from two indices of 16 bits, which may be the same.
func TestAckFar(t *testing.T) {
	for _, n := range []int{32_767, 32_768, 32_769, 40_000, 65_535, 65_536, 65_537, 98_304, 131_072, 200_000} {
		for _, step := range []int{1, 16_384} {
			r := open(t, quiet())
			c := r.create(1)
			r.save()
			for round := range 3 {
				r.acks.take()
				r.save()
				if got := r.acks.take(); got != nil {
					t.Errorf("round %d: acknowledged %v, and nothing came in", round, got)
				}
				last, _ := c.Indices()
				want := last + Index(n)
				for left := n; left > 0; {
					ahead := min(left, step)
					last += Index(ahead)
					if got := received(t, c, last); got != ahead {
						t.Fatalf("message %d is %d ahead, want %d", last, got, ahead)
					}
					left -= ahead
				}
				r.save()
				if got := r.acks.take(); !slices.Equal(got, []Ack{{c, want}}) {
					t.Errorf("round %d: %d messages: acknowledged %v, want %d", round, n, got, want)
				}
			}
		}
	}
}

// So it is if the saves between fail.
func TestAckFarFails(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	r.acks.take()
	for i := range 4 {
		received(t, c, Index((i+1)*16_384)) // once around
		r.refuse()
		if err := r.set.Save(ctx); err == nil {
			t.Fatal("the save has not failed")
		}
	}
	if got := r.acks.take(); got != nil {
		t.Errorf("acknowledged %v", got)
	}
	r.eng.Heal()
	r.save()
	if got := r.acks.take(); !slices.Equal(got, []Ack{{c, 0}}) {
		t.Errorf("acknowledged %v, want 0", got)
	}
}

// Client indices wrap as well.
func TestSentWraps(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	for i := 1; i <= 1<<16+1; i++ {
		if got, err := c.Sent(); err != nil || got != Index(i) {
			t.Fatalf("message %d has index %d, %v", i, got, err)
		}
	}
	r.save()
	r.same()
}

// A save without news for a gateway tells it nothing; the index is that of the save, not
// what has come since.
func TestAckSnapshot(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	must(t, c.SetState(1))
	r.save()
	if got := r.acks.take(); got != nil {
		t.Errorf("acknowledged %v, and nothing came in", got)
	}
	received(t, c, 1)
	p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() { done <- r.set.Save(ctx) }()
	later(t, p.Reached())
	received(t, c, 2)
	p.Release()
	must(t, later(t, done))
	if got := r.acks.take(); !slices.Equal(got, []Ack{{c, 1}}) {
		t.Errorf("acknowledged %v, want 1: 2 came after what was saved", got)
	}
	r.save()
	if got := r.acks.take(); !slices.Equal(got, []Ack{{c, 2}}) {
		t.Errorf("acknowledged %v, want 2", got)
	}
}

// A message that comes again moves nothing, and is acknowledged again: its gateway has not
// heard that it was.
func TestDuplicate(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	received(t, c, 5)
	r.save()
	r.acks.take()
	for _, index := range []Index{5, 4, 65_535} {
		if ahead := received(t, c, index); ahead > 0 {
			t.Errorf("message %d is %d ahead of 5", index, ahead)
		}
		if server, _ := c.Indices(); server != 5 {
			t.Errorf("message %d moved the index to %d", index, server)
		}
		r.save()
		if got := r.acks.take(); !slices.Equal(got, []Ack{{c, 5}}) {
			t.Errorf("message %d: acknowledged %v, want 5", index, got)
		}
	}
	if ahead := received(t, c, 8); ahead != 3 {
		t.Errorf("8 is %d ahead of 5: two are missing", ahead)
	}
}

// After a restart nobody knows whether the gateway was told: it is, with the first save
// of the connection.
func TestAckAfterRestart(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	received(t, c, 5)
	r.save()
	r.acks.take()
	r.crash()
	c, _ = r.set.Get(c.ID())
	must(t, c.SetState(1))
	r.save()
	if got := r.acks.take(); !slices.Equal(got, []Ack{{c, 5}}) {
		t.Errorf("acknowledged %v, want 5", got)
	}
}

// Nobody waits for what a connection that is gone has received.
func TestAckGone(t *testing.T) {
	r := open(t, quiet())
	c, other := r.create(1), r.create(2)
	received(t, c, 1)
	received(t, other, 1)
	var b batch.Batch
	must(t, r.set.Stage(&b))
	p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() { done <- r.actor.Commit(ctx, &b) }()
	later(t, p.Reached())
	must(t, r.set.remove(c))
	p.Release()
	must(t, later(t, done))
	r.save()
	r.set.clock.Close() // waits for who has been asked to tell of that batch
	if got := r.acks.take(); !slices.Equal(got, []Ack{{other, 1}}) {
		t.Errorf("acknowledged %v, want the other", got)
	}
}

// What somebody else's batch has applied is acknowledged as soon as it is on stable
// storage, and not before.
func TestAckOfStaged(t *testing.T) {
	acks := make(chan []Ack)
	opts := quiet()
	opts.OnAck = func(a []Ack) { acks <- a }
	r := open(t, opts)
	c := r.create(1)
	received(t, c, 1)
	var b batch.Batch
	must(t, r.set.Stage(&b))
	p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeSync})
	must(t, r.actor.Apply(ctx, &b))
	later(t, p.Reached())
	r.same()
	select {
	case a := <-acks:
		t.Fatalf("acknowledged %v, and nothing is on stable storage", a)
	default:
	}
	p.Release()
	if got := later(t, acks); !slices.Equal(got, []Ack{{c, 1}}) {
		t.Errorf("acknowledged %v", got)
	}
}

// If stable storage can't be reached nothing is acknowledged.
func TestAckOfStagedFails(t *testing.T) {
	r := open(t, quiet())
	received(t, r.create(1), 1)
	var b batch.Batch
	must(t, r.set.Stage(&b))
	p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Err: faultkv.ErrInjected})
	must(t, r.actor.Apply(ctx, &b))
	later(t, p.Reached())
	p.Release()
	r.set.clock.Close() // waits until the sync has been tried
	if got := r.acks.take(); got != nil {
		t.Errorf("acknowledged %v", got)
	}
	if r.actor.Err() == nil {
		t.Error("the sync has not failed")
	}
}

// OnAck may save, and change connections; what comes of that is told after it.
func TestAckSaves(t *testing.T) {
	var r *room
	var c *Conn
	var got []Index
	opts := quiet()
	opts.OnAck = func(acks []Ack) {
		for _, a := range acks {
			got = append(got, a.Index)
		}
		if index, _ := c.Indices(); index < 5 {
			received(t, c, index.Next())
			must(t, r.set.Save(ctx))
			if len(got) != int(index) {
				t.Errorf("acks come within acks: %v", got)
			}
		}
	}
	r = open(t, opts)
	c = r.create(1)
	received(t, c, 1)
	r.save()
	if want := []Index{1, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("acknowledged %v, want %v", got, want)
	}
}
