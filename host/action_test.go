package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestTypedActions: one declaration is both ends of a call, in every host whose types list
// it, under the name of the type that does.
func TestTypedActions(t *testing.T) {
	set := NewCommand("set", func(c *Context, n int) error { return greenroom.SetState(c, n) })
	get := NewAction("get", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) })
	refuse := NewCommand("refuse", func(c *Context, _ struct{}) error { return errors.Join(greenroom.SetState(c, -1), errRefused) })
	for _, name := range []string{"thing", "other"} {
		h, err := Open(t.Context(), memkv.New(), []*Type{{Name: name, Actions: []AnyAction{set, get, refuse}}}, &Options{Logger: quiet})
		must(t, err)
		must(t, set.Call(t.Context(), h, "mine", len(name)))
		wantErr(t, refuse.Call(t.Context(), h, "mine", struct{}{}), errRefused)
		n, err := get.Call(t.Context(), h, "mine", struct{}{})
		must(t, err)
		r, err := h.Do(t.Context(), &Call{Actor: Address{name, "mine"}, Action: get.Name(), Existing: true})
		must(t, err)
		var same int
		must(t, r.Decode(&same))
		if n != len(name) || same != n {
			t.Errorf("%s/mine has %d, by its name %d", name, n, same)
		}
		_, err = get.Call(t.Context(), h, "", struct{}{})
		wantErr(t, err, ErrAddress)
		must(t, h.Close(t.Context()))
	}
}

// TestActionOfNoType: an action that no type of the host lists can't be called, nor be
// scheduled by an actor of a type that doesn't list it, and the error names it.
func TestActionOfNoType(t *testing.T) {
	stray := NewAction("stray", func(*Context, int) (int, error) { return 0, nil })
	bubble(t, Options{}, func(r *rig) {
		_, err := stray.Call(r.ctx, r.Host, "lobby", 1)
		wantErr(t, err, ErrNoAction)
		if !strings.Contains(err.Error(), `"stray"`) {
			t.Errorf("got %v", err)
		}
		err = r.Do0(func(c *Context) error {
			_, err := stray.After(c, time.Second, 1)
			return err
		})
		wantErr(t, err, ErrNoAction)
	}, thing(add))
}

// A oneWay is a value that can't be read again.
type oneWay struct{}

var errOneWay = errors.New("one way")

func (oneWay) MarshalCBOR() ([]byte, error) { return []byte{0}, nil }

func (*oneWay) UnmarshalCBOR([]byte) error { return errOneWay }

// TestTypedActionFails: arguments that can't be encoded are no call, and a result that
// can't be decoded is an error of one that has landed.
func TestTypedActionFails(t *testing.T) {
	send := NewCommand("send", func(*Context, chan int) error { return nil })
	lost := NewAction("lost", func(c *Context, _ struct{}) (oneWay, error) { return oneWay{}, greenroom.SetState(c, 1) })
	bubble(t, Options{}, func(r *rig) {
		wantErr(t, send.Call(r.ctx, r.Host, "lobby", nil), ErrArgs)
		_, err := lost.Call(r.ctx, r.Host, "lobby", struct{}{})
		wantErr(t, err, errOneWay)
		if !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("got %v", err)
		}
		if n := r.call(lobby, "add", 0); n != 1 {
			t.Errorf("the state is %d", n)
		}
	}, thing(add, send, lost))
}

// TestScheduledAction: an actor runs an action later. The action gets what was scheduled with its
// declaration, and an action without arguments gets none.
func TestScheduledAction(t *testing.T) {
	var done diary
	note := NewCommand("note", func(c *Context, what string) error {
		c.AfterCommit(func() { done.write(what) })
		return nil
	})
	tick := NewCommand("tick", func(c *Context, _ struct{}) error { c.AfterCommit(func() { done.write("tick") }); return nil })
	plan := NewCommand("plan", func(c *Context, d time.Duration) error {
		_, err := note.After(c, d, "noted")
		if err == nil {
			_, err = tick.At(c, c.Now().Add(2*d), struct{}{})
		}
		return err
	})
	bubble(t, Options{}, func(r *rig) {
		must(t, plan.Call(r.ctx, r.Host, "lobby", time.Hour))
		pass(time.Hour)
		if got := strings.Join(done.read(), " "); got != "noted" {
			t.Errorf("after an hour %q", got)
		}
		pass(time.Hour)
		if got := strings.Join(done.read(), " "); got != "noted tick" {
			t.Errorf("after two hours %q", got)
		}
	}, thing(note, tick, plan))
}
