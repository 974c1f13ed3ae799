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
