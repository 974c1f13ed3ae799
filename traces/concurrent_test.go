package traces

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// TestTogether records, reads, flushes, stages and trims from many goroutines at once.
func TestTogether(t *testing.T) {
	r := newRig(t, Options{ChunkAge: time.Millisecond, ChunkBytes: 4000})
	const workers, spans = 4, 50
	root := r.Begin("root", nil)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for j := range spans {
				s := r.Begin(fmt.Sprint("s", i), &StartOptions{Parent: root, Attributes: []Attr{Int("j", int64(j))}})
				s.Event("e")
				root.Event("r", Int("i", int64(i)))
				s.SetStatus(StatusOK, "")
				s.End()
			}
		})
		all.Go(func() {
			for range spans / 5 {
				switch i {
				case 0:
					if err := r.Flush(ctx); err != nil && !isBusy(err) {
						t.Errorf("flush: %v", err)
					}
				case 1:
					if _, err := r.Read(ctx, Query{TraceID: root.TraceID()}); err != nil {
						t.Errorf("read: %v", err)
					}
				case 2:
					var b batch.Batch
					if err := r.In(&b).Flush(ctx); err != nil {
						t.Errorf("stage: %v", err)
					}
					b.Put(actorstore.UserKey(nil), nil)
					if err := r.actor.Commit(ctx, &b); err != nil {
						t.Errorf("commit: %v", err)
					}
				default:
					if _, err := r.Trim(ctx); err != nil {
						t.Errorf("trim: %v", err)
					}
					r.Stats()
				}
			}
		})
	}
	all.Wait()
	root.End()
	r.flush()
	res := r.read(Query{TraceID: root.TraceID()})
	if len(res.Spans) != workers*spans+1 {
		t.Errorf("%d spans", len(res.Spans))
	}
	for _, d := range res.Spans {
		if d.Running() || d.Name != "root" && events(&d) != "[e]" || d.Name == "root" && len(d.Events)+int(d.DroppedEvents) != workers*spans {
			t.Errorf("%s: %d events, %d dropped", d.Name, len(d.Events), d.DroppedEvents)
		}
	}
	r.verify("together")
}
