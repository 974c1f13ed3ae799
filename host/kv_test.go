package host

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A kvModel is what user keys must be: those of the store, and those of a turn.
type kvModel map[string]string

func (m kvModel) list(opts actorstore.ListOptions) (es []string) {
	for k := range m {
		if bytes.HasPrefix([]byte(k), opts.Prefix) && (span{opts.Start, opts.End}).has([]byte(k)) {
			es = append(es, k)
		}
	}
	slices.Sort(es)
	if opts.Reverse {
		slices.Reverse(es)
	}
	if opts.Limit > 0 && len(es) > opts.Limit {
		es = es[:opts.Limit]
	}
	for i, k := range es {
		es[i] = k + "=" + m[k]
	}
	return es
}

// TestKVModel makes random turns, of which some fail, and compares what each sees with a
// map.
func TestKVModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	bubble(t, Options{}, func(r *rig) {
		stored := kvModel{}
		for range 300 {
			turn := kvModel{}
			for k, v := range stored {
				turn[k] = v
			}
			fail := rnd.IntN(4) == 0
			err := r.Do0(func(c *Context) error {
				for range rnd.IntN(8) {
					if err := randomKV(rnd, c.KV(), turn); err != nil {
						return err
					}
				}
				if fail {
					return errRefused
				}
				return nil
			})
			if fail {
				wantErr(t, err, errRefused)
				continue
			}
			must(t, err)
			stored = turn
		}
	}, thing())
}

func randomKV(rnd *rand.Rand, kv *KV, m kvModel) error {
	key := func() []byte { return fmt.Appendf(nil, "%c%d", 'a'+rnd.IntN(2), rnd.IntN(8)) }
	switch k := key(); rnd.IntN(5) {
	case 0:
		v := fmt.Sprint(rnd.IntN(100))
		m[string(k)] = v
		return kv.Put(k, []byte(v))
	case 1:
		delete(m, string(k))
		return kv.Delete(k)
	case 2:
		s := span{key(), key()}
		if rnd.IntN(10) == 0 {
			s.end = nil
		}
		for k := range m {
			if s.has([]byte(k)) {
				delete(m, k)
			}
		}
		return kv.DeleteRange(s.start, s.end)
	case 3:
		got, err := kv.Get(k, []byte("before:"))
		want, ok := m[string(k)]
		switch {
		case ok && (err != nil || string(got) != "before:"+want):
			return fmt.Errorf("get %s: %s, %w, want %s", k, got, err, want)
		case !ok && !errors.Is(err, actorstore.ErrNotFound):
			return fmt.Errorf("get %s: %s, %w, want none", k, got, err)
		}
		return nil
	default:
		opts := actorstore.ListOptions{Start: key(), End: key(), Reverse: rnd.IntN(2) == 0, Limit: rnd.IntN(4)}
		switch rnd.IntN(3) {
		case 0:
			opts.Start, opts.End = nil, nil
		case 1:
			opts.Prefix = []byte("a")
		}
		var got []string
		for e, err := range kv.List(opts) {
			if err != nil {
				return err
			}
			got = append(got, string(e.Key)+"="+string(e.Value))
		}
		if want := m.list(opts); !slices.Equal(got, want) {
			return fmt.Errorf("list %+v: %q, want %q", opts, got, want)
		}
		return nil
	}
}

// TestKVOwnKeysOnly looks whether user keys reach others.
func TestKVOwnKeysOnly(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "everything", false)
		must(t, r.Do0(func(c *Context) error { return c.KV().DeleteRange(nil, nil) }))
		if got, want := r.look(), (landed{1, 0, 1, 1, 7, 0}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}, wholeThing())
}
