package front

import (
	"context"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A mortal is an engine that can fail for good.
type mortal struct {
	kv.Engine
	failed chan struct{}
}

func (m *mortal) Failed() <-chan struct{} { return m.failed }

func (m *mortal) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	select {
	case <-m.failed:
		return dst, fmt.Errorf("mortal: %w", kv.ErrPoisoned)
	default:
		return m.Engine.Get(ctx, key, dst)
	}
}

// TestHealth: a process whose store has failed for good is not healthy, and one whose
// store just doesn't answer is.
func TestHealth(t *testing.T) {
	r := newRig(t, Options{})
	r.close()
	engine := &mortal{memkv.New(), make(chan struct{})}
	r.engine = engine
	r.open()
	for _, want := range []int{200, 503} {
		status, answer, _ := r.do("GET", "/healthz", "")
		if status != want || want == 503 && answer != `{"status":"failed","reason":"the store has failed"}` {
			t.Errorf("healthy: got %d %s, want %d", status, answer, want)
		}
		if status, answer, _ := r.do("GET", "/readyz", ""); status != want {
			t.Errorf("ready: got %d %s, want %d", status, answer, want)
		}
		if want == 200 {
			close(engine.failed)
		}
	}
}

// TestReadyLeaving: a front that is about to end is not ready, so that clients are sent elsewhere, and answers calls still.
func TestReadyLeaving(t *testing.T) {
	r := newRig(t, Options{})
	for _, want := range []int{200, 503} {
		if status, answer, _ := r.do("GET", "/readyz", ""); status != want {
			t.Errorf("ready: got %d %s, want %d", status, answer, want)
		}
		if status, answer, _ := r.do("GET", "/healthz", ""); status != 200 {
			t.Errorf("healthy: got %d %s", status, answer)
		}
		if status, answer, _ := r.do("POST", "/actors/room/a/actions/add", "1", "Content-Type", "application/json"); status != 200 {
			t.Errorf("a call: got %d %s", status, answer)
		}
		r.front.Leave()
	}
}
