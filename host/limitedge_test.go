package host

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/queue"
)

// TestLimitOrder: types that share limits don't wait for each other's permits for ever, in whichever order they name them.
func TestLimitOrder(t *testing.T) {
	l := newLedger()
	x, y := &Limit{Name: "x", Concurrency: 1}, &Limit{Name: "y", Concurrency: 1}
	one, other := limited(l, 1, x, y), limited(l, 1, y, x)
	other.Name = "other"
	bubble(t, Options{IdleTimeout: time.Hour}, func(r *rig) {
		for i := range 4 {
			for _, name := range []string{"thing", "other"} {
				key := fmt.Sprint(name[:1], "-", i)
				_, err := r.Send(r.ctx, Address{name, key}, queue.Send{Name: "job", Body: key})
				must(t, err)
			}
		}
		pass(8*time.Minute + time.Second)
	}, one, other)
	l.look(func() {
		if l.most[""] != 1 || len(l.done) != 8 {
			t.Errorf("at once %v, done %v", l.most, l.done)
		}
	})
}
