package host

import (
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/traces"
)

// TestTraces looks for the spans of an actor's turns in its own keys.
func TestTraces(t *testing.T) {
	kind := wholeThing()
	kind.Wake = func(*Context) error { return nil }
	bubble(t, Options{Traces: &traces.Options{}}, func(r *rig) {
		r.call(lobby, "everything", false)
		_, err := Invoke[int](r.ctx, r.Host, lobby, "everything", true)
		wantErr(t, err, errRefused)
		r.reopen()
		var names, failed []string
		must(t, r.Do0(func(c *Context) error {
			res, err := c.life.traces.Read(c.Context(), traces.Query{End: c.Now().Add(time.Hour)})
			if err != nil {
				return err
			}
			for _, s := range res.Spans {
				names = append(names, s.Name)
				if s.Status.Code == traces.StatusError {
					failed = append(failed, s.Name)
				}
			}
			c.Span().Event("looked")
			return nil
		}))
		for _, want := range []string{"actor.onWake", "actor.action.everything"} {
			if !slices.Contains(names, want) {
				t.Errorf("there is no span %q among %q", want, names)
			}
		}
		if !slices.Equal(failed, []string{"actor.action.everything"}) {
			t.Errorf("the spans %q have failed", failed)
		}
	}, kind)
}
