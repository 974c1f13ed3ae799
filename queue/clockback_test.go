package queue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/part"
)

// TestClockSetBack: when the clock is set back by a day, a lease, a delay and a sender's key last for what is left of them, and
// after a restart no longer than the whole.
func TestClockSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		st, err := actorstore.Open(ctx, memkv.New(), nil)
		must(t, err)
		a, err := st.Named(ctx, "x", nil)
		must(t, err)
		begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		var passed atomic.Int64 // time.Duration since begin; alarms look at the clock on goroutines of their own
		pass := func(d time.Duration) { passed.Add(int64(d)) }
		var q *Queue
		open := func() {
			clock := alarm.New(&alarm.Options{Now: func() time.Time { return begin.Add(time.Duration(passed.Load())) }})
			t.Cleanup(clock.Close)
			q, err = Open(ctx, a, &Options{Env: part.Env{Clock: clock}, KeyWindow: 12 * time.Minute})
			must(t, err)
		}
		open()
		received := func(name string) bool {
			t.Helper()
			m, err := q.TryReceive(ctx, &ReceiveOptions{Names: []string{name}})
			must(t, err)
			return len(m) == 1
		}
		send := func(s Send) {
			t.Helper()
			_, err := q.Enqueue(ctx, s)
			must(t, err)
		}
		send(Send{Name: "leased"})
		send(Send{Name: "delayed", Delay: time.Minute})
		send(Send{Name: "forever", Delay: Forever})
		send(Send{Name: "keyed", Key: "k"})
		if !received("leased") {
			t.Fatal("nothing was received")
		}
		pass(-24 * time.Hour)
		if restart {
			must(t, q.Close())
			open()
		}
		if received("leased") || received("delayed") {
			t.Error("at once something is visible")
		}
		pass(29 * time.Second)
		if received("leased") {
			t.Errorf("restart %v: the lease was too short", restart)
		}
		pass(2 * time.Second)
		if !received("leased") || received("delayed") {
			t.Errorf("restart %v: after 31 s the lease of 30 s isn't over, or the delay of a minute is", restart)
		}
		pass(30 * time.Second)
		if !received("delayed") {
			t.Errorf("restart %v: the delay of a minute isn't over", restart)
		}
		before := q.Len()
		send(Send{Name: "keyed", Key: "k"})
		if q.Len() != before {
			t.Errorf("restart %v: the key was forgotten", restart)
		}
		pass(11 * time.Minute)
		send(Send{Name: "keyed", Key: "k"})
		if q.Len() != before+1 {
			t.Errorf("restart %v: the key of 12 minutes is remembered for longer", restart)
		}
		if received("forever") {
			t.Error("what was delayed for ever is visible")
		}
		must(t, q.Close())
		must(t, st.Close())
	}
}
