package engine_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/rivetkit/engine"
)

// TestDeafRunner: a runner that doesn't read is cut off when as much waits for it as may.
func TestDeafRunner(t *testing.T) {
	r := newRig(t, engine.Options{MaxQueued: 4 << 20})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	p.mu.Lock()
	p.deaf = true
	p.mu.Unlock()
	var all sync.WaitGroup
	for range 40 { // more than the sockets of this machine hold
		all.Go(func() {
			resp, err := http.Post(r.url+"/gateway/"+id+"/", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
			if err != nil || resp.StatusCode < http.StatusInternalServerError {
				t.Errorf("%+v %v", resp, err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	all.Wait()
	r.want(200, `"runners":[]`, "GET", "/runners?namespace=default&name=default", "")
}
