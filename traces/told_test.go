package traces

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// An asker is a logger and a sink that ask what has happened.
type asker struct {
	slog.Handler
	ask func()
}

func (a asker) Handle(context.Context, slog.Record) error { a.ask(); return nil }
func (a asker) Enabled(context.Context, slog.Level) bool  { return true }
func (a asker) Add(*metrics.Metric, int64)                { a.ask() }
func (a asker) Observe(*metrics.Metric, time.Duration)    { a.ask() }

// TestToldUnlocked: a logger that is told that something went wrong may use the Traces.
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
