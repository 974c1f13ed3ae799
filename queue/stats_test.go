package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// counts are the statistics of a name: ready, delayed, leased, dying, dead.
func counts(s Stats, name string) string {
	n := s.Of(name)
	return fmt.Sprint(n.Name, " ", n.Ready, n.Delayed, n.Leased, n.Dying, n.Dead)
}

// TestStatsByName counts by name what the queue holds, and in a Tx what it would hold if the batch landed, which it then does.
func TestStatsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for range 3 {
			r.enqueue("a", "x")
		}
		r.enqueue("b", "x")
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Hour})
		must(t, err)
		first := r.one(ReceiveOptions{Names: []string{"a"}})
		want := func(what string, s Stats, messages int, names ...string) {
			t.Helper()
			if s.Messages != messages {
				t.Errorf("%s: %d messages, want %d", what, s.Messages, messages)
			}
			for _, name := range names {
				if got := counts(s, name[:1]); got != name {
					t.Errorf("%s: got %q, want %q", what, got, name)
				}
			}
			for _, n := range s.Names {
				if n != s.Of(n.Name) {
					t.Errorf("%s: %+v among the names, and %+v by name", what, n, s.Of(n.Name))
				}
			}
		}
		before := []string{"a 2 1 1 0 0", "b 1 0 0 0 0", "c 0 0 0 0 0"}
		want("stored", r.q.Stats(), 5, before...)

		var b batch.Batch
		tx := r.q.In(&b)
		want("an empty batch", tx.Stats(), 5, before...)
		if b.Len() != 0 {
			t.Errorf("it stages %d writes", b.Len())
		}
		must(t, tx.Nack(ctx, first.Receipt(), 0, Permanent(errSoldOut)))
		msgs := r.stageReceive(&b, ReceiveOptions{Names: []string{"b"}})
		must(t, tx.Complete(msgs[0].Receipt(), nil))
		must(t, tx.Delete(2))
		r.stageEnqueue(&b, Send{Name: "c"})
		r.stageEnqueue(&b, Send{Name: "c", Delay: time.Hour})
		r.stageReceive(&b, ReceiveOptions{Names: []string{"c"}})
		after := []string{"a 1 1 0 0 1", "b 0 0 0 0 0", "c 0 1 1 0 0"}
		want("staged", tx.Stats(), 5, after...)
		want("outside", r.q.Stats(), 5, before...)
		staged := tx.Stats()
		must(t, r.actor.Commit(ctx, &b))
		want("landed", r.q.Stats(), 5, after...)
		if got := r.q.Stats(); fmt.Sprintf("%+v", got.Names) != fmt.Sprintf("%+v", staged.Names) {
			t.Errorf("landed it is %+v, and was %+v", got, staged)
		}
		if n := staged.Of("a.dlq"); n.Ready != 1 || n.Dead != 0 || n.Oldest.IsZero() {
			t.Errorf("the dead letters are %+v", n)
		}
		r.verify("in the end")
	})
}
