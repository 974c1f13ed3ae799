package traces

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type panicker struct{}

func (panicker) MarshalCBOR() ([]byte, error) { panic("no") }

type ring struct{ Next *ring }

type child struct {
	Name   string
	Parent *child `json:"-"`
}

// TestAnyValueSurvives: nothing that a program records ends it, or takes for ever.
func TestAnyValueSurvives(t *testing.T) {
	self, twice := map[string]any{}, map[string]any{}
	self["self"] = self
	twice["a"], twice["b"] = twice, twice
	list := []any{nil}
	list[0] = list
	knot := &ring{}
	knot.Next = knot
	deep := map[int]any{}
	deep[1] = []any{deep, deep}
	wide := any(1)
	for range 30 {
		wide = []any{wide, wide}
	}
	kid := &child{Name: "kid"}
	kid.Parent = kid
	var none *nilError
	for _, c := range []struct {
		name, want string
		x          any
	}{
		{"map in itself", "none", self}, {"map twice in itself", "none", twice}, {"list in itself", "none", list},
		{"struct that points to itself", "none", knot}, {"map of others in itself", "none", deep}, {"2³⁰ elements", "none", wide},
		{"nil error", "none", error(none)}, {"nil error in a list", "none", []any{1, error(none)}}, {"panic", "none", panicker{}},
		{"panic inside", "none", map[int]any{1: panicker{}}},
		{"complex", "none", 1i}, {"pointer that is left out", `{"Name":"kid"}`, kid}, {"nil pointer", "null", (*ring)(nil)},
		{"time", "2023-11-15T00:00:00Z", &t0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, quiet())
			r.Begin("s", &StartOptions{Attributes: []Attr{Any("k", c.x)}}).End()
			d := r.one(Query{})
			want(t, "value", attr(&d, "k"), c.want)
			want(t, "dropped", int(d.DroppedAttributes), len(strings.Split("none", c.want))-1)
		})
	}
}

// TestEncoderBound: values that hold one another in many places are given up when they are
// longer than a record.
func TestEncoderBound(t *testing.T) {
	v := StringValue(strings.Repeat("x", 1000))
	for range 30 {
		v = ArrayValue(v, MapValue(Attr{"k", v}))
	}
	r := newRig(t, quiet())
	r.Begin("s", &StartOptions{Attributes: []Attr{{"k", v}}}).End()
	want(t, "dropped", r.one(Query{}).DroppedAttributes, 1)
}

// TestAnyValueAtTheCall: what a value holds may change after it was given.
func TestAnyValueAtTheCall(t *testing.T) {
	w := newWatch(t0)
	o := quiet()
	o.Now, o.SnapshotInterval = w.now, time.Second
	r := newRig(t, o)
	ints, list, members := map[string]int{"a": 1}, []Value{IntValue(1)}, []Attr{Int("a", 1)}
	s := r.Begin("s", nil)
	s.SetAttributes(Any("ints", ints), Any("list", list), Any("members", members))
	ints["a"], list[0], members[0] = 2, IntValue(2), Int("a", 2)
	w.set(at(10))
	s.Event("e") // has it recorded whole
	s.End()
	d := r.one(Query{})
	for key, x := range map[string]string{"ints": `{"a":1}`, "list": "[1]", "members": `{"a":1}`} {
		want(t, key, attr(&d, key), x)
	}
}

// An asker is a logger and a sink that ask what has happened.
type asker struct {
	slog.Handler
	ask func()
}

func (a asker) Handle(context.Context, slog.Record) error { a.ask(); return nil }
func (a asker) Enabled(context.Context, slog.Level) bool  { return true }
func (a asker) Add(*metrics.Metric, int64)                { a.ask() }
func (a asker) Observe(*metrics.Metric, time.Duration)    { a.ask() }

// TestToldUnlocked: who is told that something went wrong may use the Traces.
func TestToldUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which knows a deadlock
		var traces *Traces
		var asked atomic.Int64
		a := asker{slog.DiscardHandler, func() {
			if traces != nil {
				traces.Stats()
				asked.Add(1)
			}
		}}
		o := quiet()
		o.MaxPending, o.MaxActive, o.Logger, o.Metrics = 1, 1, slog.New(a), a
		r := newRigFull(t, o)
		r.full(true)
		traces = r.Traces
		for i := range 3 {
			s := r.Begin(fmt.Sprint("s", i), nil)
			r.Begin("one too many", &StartOptions{Parent: s}).End()
			s.End()
			if err := r.Flush(ctx); err == nil {
				t.Error("flush of a full store: no error")
			}
		}
		r.close()
		if n := asked.Load(); n < 10 {
			t.Errorf("asked %d times", n)
		}
	})
}
