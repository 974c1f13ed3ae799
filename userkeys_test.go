package greenroom_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
)

// TestKeysRandom compares the keys that transactions see, in themselves and afterwards,
// with a map, for random writes, lists and ends.
func TestKeysRandom(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			r := newRig(t, batch.Limits{})
			stored := map[string]string{}
			for range 60 {
				model := maps.Clone(stored)
				giveUp := errors.New("given up")
				lands := rnd.IntN(3) > 0
				err := r.actor.UpdateApplied(ctx, func(tx *greenroom.Tx) error {
					for range rnd.IntN(12) {
						if err := keysStep(t, rnd, tx, model); err != nil {
							return err
						}
					}
					if !lands {
						return giveUp
					}
					return nil
				})
				if lands {
					stored = model
				} else if errors.Is(err, giveUp) {
					err = nil
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(stored) == 0 {
				return // an actor that was never written to has no view
			}
			if err := r.actor.View(ctx, func(v *greenroom.View) error {
				checkList(t, v, greenroom.ListOptions{}, stored)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// randomKey returns one of few keys, of which some begin with others or end with 0xff.
func randomKey(rnd *rand.Rand) []byte {
	key := make([]byte, rnd.IntN(4))
	for i := range key {
		key[i] = "ab\xff"[rnd.IntN(3)]
	}
	return key
}

// keysStep does one thing to a transaction and to its model.
func keysStep(t *testing.T, rnd *rand.Rand, tx *greenroom.Tx, model map[string]string) error {
	key := randomKey(rnd)
	switch rnd.IntN(6) {
	case 0, 1:
		value := fmt.Appendf(nil, "v%d", rnd.Uint32())
		model[string(key)] = string(value)
		err := tx.Put(key, value)
		clear(value) // it is not kept
		return err
	case 2:
		delete(model, string(key))
		return tx.Delete(key)
	case 3:
		end := randomKey(rnd)
		if rnd.IntN(4) == 0 {
			end = nil
		}
		maps.DeleteFunc(model, func(k, _ string) bool {
			return k >= string(key) && (end == nil || k < string(end))
		})
		return tx.DeleteRange(key, end)
	case 4:
		got, err := tx.Get(key)
		want, ok := model[string(key)]
		if ok != !errors.Is(err, greenroom.ErrNotFound) || ok && (err != nil || string(got) != want) {
			t.Errorf("Get(%q) = %q, %v, want %q, %v", key, got, err, want, ok)
		}
		return nil
	}
	opts := greenroom.ListOptions{Reverse: rnd.IntN(2) == 0, Limit: rnd.IntN(4), KeysOnly: rnd.IntN(4) == 0}
	if rnd.IntN(2) == 0 {
		opts.Prefix = randomKey(rnd)
	}
	if rnd.IntN(2) == 0 {
		opts.Start = randomKey(rnd)
	}
	if rnd.IntN(2) == 0 {
		opts.End = randomKey(rnd)
	}
	checkList(t, tx, opts, model)
	return nil
}

// checkList compares what is listed with what a model has.
func checkList(t *testing.T, r interface {
	List(greenroom.ListOptions) iter.Seq2[greenroom.Entry, error]
}, opts greenroom.ListOptions, model map[string]string) {
	t.Helper()
	var want, got []string
	for _, k := range slices.Sorted(maps.Keys(model)) {
		v := model[k]
		if k < string(opts.Start) || opts.End != nil && k >= string(opts.End) || !bytes.HasPrefix([]byte(k), opts.Prefix) {
			continue
		}
		if opts.KeysOnly {
			v = ""
		}
		want = append(want, fmt.Sprintf("%q=%s", k, v))
	}
	if opts.Reverse {
		slices.Reverse(want)
	}
	if opts.Limit > 0 {
		want = want[:min(opts.Limit, len(want))]
	}
	for e, err := range r.List(opts) {
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := model[string(e.Key)]; !ok || e.Size != len(v) || e.Updated.IsZero() {
			t.Errorf("%q: size %d, written at %v", e.Key, e.Size, e.Updated)
		}
		got = append(got, fmt.Sprintf("%q=%s", e.Key, e.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v: got %q, want %q", opts, got, want)
	}
}
