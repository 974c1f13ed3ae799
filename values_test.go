package greenroom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/cbor/cbortest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A writer stores a value, and reads it into what to points to.
type writer func(t *testing.T, r *rig, v, to any) (write, read error)

var writers = map[string]writer{
	"state": func(t *testing.T, r *rig, v, to any) (write, read error) {
		raw, err := cbor.Marshal(v)
		if err != nil {
			return err, nil
		}
		write = r.actor.Update(ctx, func(tx *greenroom.Tx) error { return tx.SetRawState(raw) })
		must(t, r.actor.View(ctx, func(view *greenroom.View) error {
			raw, err := view.RawState()
			read = cbor.Unmarshal(raw, to)
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
	"dead letter": func(t *testing.T, r *rig, v, to any) (write, read error) {
		a, err := r.store.Actor(ctx, "letters", &greenroom.ActorOptions{Queue: &greenroom.QueueOptions{MaxReceive: 1}})
		must(t, err)
		defer func() { must(t, a.Close()) }()
		q, err := a.Queue(ctx)
		must(t, err)
		if _, err := q.Enqueue(ctx, queue.Send{Name: "d", Body: v}); err != nil {
			return err, nil
		}
		for _, name := range []string{"d", "d.dlq"} {
			ms, err := q.Receive(ctx, &queue.ReceiveOptions{Names: []string{name}})
			must(t, err)
			if name == "d" {
				must(t, ms[0].Nack(ctx, 0, nil))
				continue
			}
			read = ms[0].Decode(to)
			must(t, ms[0].Complete(ctx, nil))
		}
		return nil, read
	},
	"response": func(t *testing.T, r *rig, v, to any) (write, read error) {
		q, err := r.actor.Queue(ctx)
		must(t, err)
		id, err := q.Enqueue(ctx, queue.Send{Name: "r"})
		must(t, err)
		answer, err := q.Expect(id)
		must(t, err)
		ms, err := q.TryReceive(ctx, nil)
		must(t, err)
		if err := ms[0].Complete(ctx, v); err != nil {
			must(t, ms[0].Complete(ctx, nil))
			return err, nil
		}
		raw, err := answer.Wait(ctx)
		must(t, err)
		return nil, cbor.Unmarshal(raw, to)
	},
	"event": func(t *testing.T, r *rig, v, to any) (write, read error) {
		a, err := r.store.Actor(ctx, "events", nil)
		must(t, err)
		done := make(chan error, 1)
		a.Handle("e", func(tx *greenroom.Tx, d *greenroom.Delivery) error {
			done <- d.Decode(to)
			return nil
		})
		if write = a.Update(ctx, func(tx *greenroom.Tx) error { _, err := tx.After(0, "e", v); return err }); write == nil {
			go func() { _ = a.Run(ctx) }() // which Close ends
			read = <-done
		}
		must(t, a.Close())
		return write, read
	},
	"connection": func(t *testing.T, r *rig, v, to any) (write, read error) {
		b, err := conn.Encode(v)
		if err != nil {
			return err, nil
		}
		id := uuid.New()
		var c *conn.Conn
		r.update(t, func(tx *greenroom.Tx) error {
			conns, err := tx.Connections()
			if err == nil {
				c, err = conns.Create(conn.Info{Path: "/", Request: conn.RequestID(id[:4]), Parameters: b})
			}
			return errors.Join(err, conns.SetState(c, b))
		})
		must(t, r.actor.View(ctx, func(view *greenroom.View) error {
			for stored, err := range view.Connections() {
				must(t, errors.Join(err, stored.Err))
				if stored.ID != c.ID() || !bytes.Equal(stored.Record.Parameters, stored.Record.State) {
					t.Fatalf("there is %+v", stored.Record)
				}
				read = cbor.Unmarshal(stored.Record.State, to)
			}
			return nil
		}))
		r.update(t, func(tx *greenroom.Tx) error {
			conns, err := tx.Connections()
			return errors.Join(err, conns.Disconnect(c))
		})
		return nil, read
	},
}

// TestValues: each writer takes what the encoder takes, and it is read back equal.
func TestValues(t *testing.T) {
	if !testkit.InZones(t) {
		return
	}
	for what, w := range writers {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			for seed := range uint64(200) {
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
	t.Run("typed", func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		typedValues[any](t, r)
		typedValues[cbortest.Wide](t, r)
		typedValues[*cbortest.Tree](t, r)
		typedValues[[]cbortest.Derived](t, r)
		typedValues[map[cbortest.Key]time.Time](t, r)
		typedValues[fmt.Stringer](t, r)
		typedValues[error](t, r)
	})
}

// typedValues holds for a type that what a state, or a workflow's input, steps, loops and
// result take is read back equal, by a workflow from its history.
func typedValues[T any](t *testing.T, r *rig) {
	t.Helper()
	for seed := range uint64(40) {
		var v T
		cbortest.New(seed).Fill(&v)
		_, refused := cbor.Marshal(&v)
		write := r.actor.Update(ctx, func(tx *greenroom.Tx) error { return greenroom.SetState(tx, v) })
		if write == nil {
			must(t, r.actor.View(ctx, func(view *greenroom.View) error {
				got, err := greenroom.State[T](view)
				sameValue(t, "state", v, got)
				return err
			}))
		}
		run := runValue(t, r, v)
		if (write == nil) != (refused == nil) || (run == nil) != (refused == nil) {
			t.Fatalf("%T %+v: the encoder says %v, the state %v, the workflow %v", v, v, refused, write, run)
		}
		if refused != nil && (!errors.Is(write, cbor.ErrUnsupported) || !errors.Is(run, cbor.ErrUnsupported)) {
			t.Fatalf("%T: %v, %v", v, write, run)
		}
	}
}

func sameValue[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if !cbortest.Equal(&want, &got) {
		t.Fatalf("%s: %T %+v comes back as %+v", what, want, want, got)
	}
}

// runValue sends v through a workflow, which is run twice: the second time with its history.
func runValue[T any](t *testing.T, r *rig, v T) error {
	t.Helper()
	a, err := r.store.Actor(ctx, uuid.NewString(), nil)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	first, stop := context.WithCancel(ctx)
	defer stop()
	fn := func(c *workflow.Context, in T) (T, error) {
		sameValue(t, "input", v, in)
		got, err := workflow.Step(c, "step", func(context.Context) (T, error) { return v, nil })
		if err != nil {
			return got, err
		}
		sameValue(t, "result of a step", v, got)
		if _, err := workflow.Loop(c, "loop", v, func(c *workflow.Context, state *T) (T, bool, error) {
			sameValue(t, "state of a loop", v, *state)
			stop()
			return *state, true, workflow.Do(c, "end", func(context.Context) error { return nil })
		}); err != nil {
			return got, err
		}
		return v, nil
	}
	if _, err := greenroom.RunWorkflow(first, a, fn, v); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	for range 2 {
		out, err := greenroom.RunWorkflow(ctx, a, fn, v)
		must(t, err)
		sameValue(t, "result", v, out)
	}
	return nil
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
