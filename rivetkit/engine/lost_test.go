package engine_test

import (
	"fmt"
	"testing"
	"time"
)

// TestGivenUpBesideOthers: a runner that is lost is given up in its time, though others come and go more often than that.
func TestGivenUpBesideOthers(t *testing.T) {
	for name, restart := range map[string]bool{"lost": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				must(t, p.ws.CloseNow())
				<-p.ended
				if restart {
					r.reopen()
				}
				r.connect("default", "l")
				for n := range 10 {
					q := r.connect("default", fmt.Sprint("m", n))
					pass(2 * time.Second)
					must(t, q.ws.CloseNow())
				}
				begun := time.Now()
				r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
				if d := time.Since(begun); d > time.Second {
					t.Errorf("the request has waited for %v more", d)
				}
			})
		})
	}
}
