package host

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/persist"
)

// record returns what is stored in the lobby's record.
func (r *rig) record() *persist.Contents {
	r.Helper()
	v, err := r.Store().Lower().View(r.ctx, actorstore.IDFromName(lobby.String()))
	must(r, err)
	defer v.Close()
	c, err := persist.Look(r.ctx, v.Snapshot)
	must(r, err)
	return c
}

// TestNewRecord: creating an actor stores its record, its input and the mark that it is initialised
// in one commit.
func TestNewRecord(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.engine.Reset()
		must(t, r.Create(r.ctx, lobby, "in"))
		if n := r.engine.Counts().Commits; n != 1 {
			t.Errorf("%d commits", n)
		}
		if c := r.record(); !c.Initialized || string(c.Input) != "\x62in" || string(c.State) != "\xf7" {
			t.Errorf("stored %+v", c)
		}
		r.engine.Reset()
		r.call(lobby, "later", struct{}{})
		if n := r.engine.Counts().Commits; n != 0 {
			t.Errorf("an action that changes nothing took %d commits", n)
		}
	}, wholeThing())
}

// TestUnmarkedRecord: a record without the mark, of another program, stays as it is when the
// actor wakes, and gets the mark with the first change.
func TestUnmarkedRecord(t *testing.T) {
	set := NewCommand("set", func(c *Context, s string) error { return greenroom.SetState(c, s) })
	plan := NewCommand("plan", func(c *Context, s string) error {
		_, err := c.Schedule(persist.Job{Action: s, Cron: "@yearly"})
		return err
	})
	wake := NewCommand("wake", func(c *Context, _ struct{}) error {
		var in string
		if err := c.Input(&in); err != nil || in != "in" {
			return fmt.Errorf("the input is %q, %w", in, err)
		}
		return nil
	})
	for _, change := range []string{"set", "plan"} {
		bubble(t, Options{}, func(r *rig) {
			a, err := r.Store().Lower().Named(r.ctx, lobby.String(), nil)
			must(t, err)
			must(t, a.Put(r.ctx, actorstore.AppendPersist(nil), []byte("\x04\x00\x01\x03\x62in\x00\x01\xf7\x00")))
			must(t, a.Close())
			r.call(lobby, "wake", struct{}{})
			if r.record().Initialized {
				t.Error("the actor has only been woken, and is initialised")
			}
			r.call(lobby, change, "set")
			if c := r.record(); !c.Initialized || string(c.Input) != "\x62in" {
				t.Errorf("%s: stored %+v", change, c)
			}
			r.reopen()
			r.call(lobby, "wake", struct{}{})
		}, thing(wake, set, plan))
	}
}
