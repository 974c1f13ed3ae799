package greenroom_test

import (
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/queue"
)

// TestPartsOptions: options of a part get to it, but for what the actor says itself.
func TestPartsOptions(t *testing.T) {
	r := newRig(t, batch.Limits{})
	own := alarm.New(nil)
	defer own.Close()
	opts := &greenroom.QueueOptions{MaxMessages: 1, Env: part.Env{Clock: own}}
	a, err := r.store.Actor(ctx, "other", &greenroom.ActorOptions{Queue: opts})
	must(t, err)
	q, err := a.Queue(ctx)
	must(t, err)
	must(t, second(q.Enqueue(ctx, queue.Send{Name: "late", Delay: time.Hour})))
	wantErr(t, "a second message", second(q.Enqueue(ctx, queue.Send{Name: "late"})), greenroom.ErrQuota)
	if !own.Next().IsZero() || a.Clock().Next().IsZero() {
		t.Errorf("the clock of the options rings at %v, that of the actor at %v", own.Next(), a.Clock().Next())
	}
	if opts.Clock != own || opts.Logger != nil {
		t.Error("the caller's options were changed")
	}
	must(t, a.Close())
}
