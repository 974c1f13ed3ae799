package host

import "testing"

// TestKVOwnKeysOnly looks whether user keys reach others.
func TestKVOwnKeysOnly(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "everything", false)
		must(t, r.Do0(func(c *Context) error { return c.DeleteRange(nil, nil) }))
		if got, want := r.look(), (landed{1, 0, 1, 1, 7, 0}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}, wholeThing())
}
