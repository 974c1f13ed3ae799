package host

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestTogetherWaits: what is called with the context of any of the turns, on whatever goroutine or host, waits for all of the actors.
func TestTogetherWaits(t *testing.T) {
	r := newRig(t, whole(Options{}), account())
	defer r.close()
	must(t, Together(r.ctx, r.Host, []Address{accountOf("b"), accountOf("a")}, func(cs []*Context) error {
		for _, c := range cs {
			for _, to := range []string{"a", "b"} {
				done := make(chan error)
				go func() { _, err := invoke[int](c, r.Host, accountOf(to), "balance", nil); done <- err }()
				if err := <-done; !errors.Is(err, greenroom.ErrNested) {
					t.Errorf("a call of %s with the context of %s: %v", to, c.Address(), err)
				}
				if names := waiting(c); !slices.Contains(names, accountOf(to).String()) {
					t.Errorf("another host is told that %q wait", names)
				}
			}
		}
		return nil
	}))
}

// TestTogetherAnew: an actor that leaves memory while a turn of several waits for it is woken again.
func TestTogetherAnew(t *testing.T) {
	kind := account()
	kind.Actions = append(kind.Actions, NewCommand("end", func(c *Context, d time.Duration) error {
		<-time.After(d)
		return c.Destroy()
	}))
	bubble(t, whole(Options{}), func(r *rig) {
		_, err := r.pay("a", payment{To: []string{"b"}, Amount: 1})
		must(t, err)
		ended := make(chan error)
		go func() { _, err := invoke[any](r.ctx, r.Host, accountOf("b"), "end", time.Second); ended <- err }()
		synctest.Wait()
		_, err = r.pay("a", payment{To: []string{"b"}, Amount: 1})
		must(t, err)
		must(t, <-ended)
		r.want("in the end", map[string]int{"a": 98, "b": 101})
	}, kind)
}

// TestTogetherMoved: that another actor of the turn is another host's isn't taken for news of the one that was called, which a fleet would follow.
func TestTogetherMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := memkv.New()
		r := newRigOn(t, engines.Shared(base), whole(Options{}), account())
		defer r.close()
		other := newRigOn(t, engines.Shared(base), Options{Store: &greenroom.Options{Host: actorstore.HostOptions{Name: "other"}}}, account())
		defer other.close()
		_, err := other.pay("b", payment{Amount: 1})
		must(t, err)
		for from, to := range map[string]string{"a": "b", "b": "a"} {
			_, err := r.pay(from, payment{To: []string{to}, Amount: 1})
			wantErr(t, err, actorstore.ErrInUse)
			if moved(err) != (from == "b") {
				t.Errorf("a call of %s, whose turn needs %s: %v; moved: %v", from, to, err, moved(err))
			}
		}
		thief, err := greenroom.New(r.ctx, engines.Shared(base), nil)
		must(t, err)
		for from, to := range map[string]string{"c": "d", "d": "c"} {
			stolen := false
			steal := NewJointAction("steal", func(Address, string) ([]Address, error) { return []Address{accountOf(to)}, nil },
				func(c *Context, others []*Context, _ string) (int, error) {
					if err := errors.Join(bookIn(c, -1), bookIn(others[0], 1)); err != nil || stolen {
						return 0, err
					}
					stolen = true
					a, err := thief.Actor(r.ctx, accountOf("d").String(), &greenroom.ActorOptions{Force: true})
					must(t, err)
					return 0, a.Close()
				})
			kind := account()
			kind.Actions = append(kind.Actions, steal)
			h := newRigOn(t, engines.Shared(base), whole(Options{}), kind)
			_, err := steal.Call(h.ctx, h.Host, from, "")
			wantErr(t, err, actorstore.ErrFenced)
			if moved(err) != (from == "d") {
				t.Errorf("a turn of %s and %s, of which d was taken: %v; moved: %v", from, to, err, moved(err))
			}
			h.close()
		}
		must(t, thief.Close())
	})
}
