package greenroom_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/cbor/cbortest"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A writer stores a value, and reads it into what to points to.
type writer func(t *testing.T, r *rig, v, to any) (write, read error)

var writers = map[string]writer{
	"state": func(t *testing.T, r *rig, v, to any) (write, read error) {
		write = r.actor.Update(ctx, func(tx *greenroom.Tx) error { return greenroom.SetState(tx, v) })
		must(t, r.actor.View(ctx, func(view *greenroom.View) error {
			raw, err := view.RawState()
			if err == nil && write == nil {
				read = cbor.Unmarshal(raw, to)
			}
			return err
		}))
		return write, read
	},
	"message": func(t *testing.T, r *rig, v, to any) (write, read error) {
		q, err := r.actor.Queue(ctx)
		must(t, err)
		if _, err := q.Enqueue(ctx, queue.Send{Name: "m", Body: v}); err != nil {
			return err, nil
		}
		ms, err := q.TryReceive(ctx, nil)
		must(t, err)
		read = ms[0].Decode(to)
		must(t, ms[0].Complete(ctx, nil))
		return nil, read
	},
	"connection": func(t *testing.T, r *rig, v, to any) (write, read error) {
		b, err := conn.Encode(v)
		if err != nil {
			return err, nil
		}
		return nil, cbor.Unmarshal(b, to)
	},
	"workflow": func(t *testing.T, r *rig, v, to any) (write, read error) {
		b, err := workflow.CBOR().Encode(v)
		if err != nil {
			return err, nil
		}
		return nil, workflow.CBOR().Decode(b, to)
	},
}

// TestValues: each writer takes what the encoder takes, and it is read back equal.
func TestValues(t *testing.T) {
	for what, w := range writers {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			for seed := range uint64(500) {
				v := cbortest.New(seed).Next()
				to := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				_, refused := cbor.Marshal(v)
				write, read := w(t, r, v, to)
				switch {
				case (write == nil) != (refused == nil) || read != nil:
					t.Fatalf("%T: %v, then %v; the encoder says %v", v, write, read, refused)
				case write == nil && !cbortest.Equal(v, to):
					t.Fatalf("%T: %+v comes back as %+v", v, v, to)
				case write != nil && !errors.Is(write, cbor.ErrUnsupported):
					t.Fatalf("%T: %v", v, write)
				}
			}
		})
	}
}

// TestRefusedState: a state that can't be read back is refused, with its place, and the old
// one stays.
func TestRefusedState(t *testing.T) {
	type profile struct {
		Name   string
		Visits []any
	}
	r := newRig(t, batch.Limits{})
	r.update(t, func(tx *greenroom.Tx) error { return greenroom.SetState(tx, profile{"good", nil}) })
	for path, change := range map[string]func(p *profile){
		"Name":      func(p *profile) { p.Name = "caf\xe9" },
		"Visits[0]": func(p *profile) { p.Visits = []any{errors.New("x")} },
	} {
		err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
			return greenroom.Mutate(tx, func(p *profile) error { change(p); return nil })
		})
		if err == nil || !strings.HasSuffix(err.Error(), " at "+path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := r.actor.Update(ctx, func(tx *greenroom.Tx) error { return greenroom.SetState(tx, errors.New("x")) }); err == nil {
		t.Error("an error is a state")
	}
	r.update(t, func(tx *greenroom.Tx) error {
		p, err := greenroom.State[profile](tx)
		if p.Name != "good" {
			t.Errorf("the state is %+v", p)
		}
		return err
	})
}
