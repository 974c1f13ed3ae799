package docstore_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
)

func TestIndexPlan(t *testing.T) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 3 {
		s, plain := open(t, nil), open(t, nil)
		docstore.Small(s)
		update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
		var texts []string
		for i := range 60 {
			text := odd(r, 1+r.IntN(40))
			if i%3 == 0 {
				text = odd(r, 5)
			}
			texts = append(texts, text)
			for _, s := range []*docstore.Store{s, plain} {
				update(t, s, func(tx *docstore.Tx) error {
					return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%03d", i)), "T", props{"s": text})
				})
			}
		}
		used := 0
		for range 200 {
			text := []rune(texts[r.IntN(len(texts))])
			from := r.IntN(len(text))
			to := from + 1 + r.IntN(len(text)-from)
			sub := string(text[from:to])
			op := []string{"s.contains(p0)", "s.startsWith(p0)", "s.endsWith(p0)", "s == p0"}[r.IntN(4)]
			var got [2][]docstore.Path
			for i, s := range []*docstore.Store{s, plain} {
				must(t, s.View(ctx, func(tx *docstore.Tx) error {
					opts := &docstore.FindOptions{Params: []any{sub}}
					if p, err := tx.Explain(ctx, "T", op, opts); err == nil && p.Index != "" {
						used++
					}
					for d, err := range tx.Find(ctx, "T", op, opts) {
						must(t, err)
						got[i] = append(got[i], d.Path)
					}
					return nil
				}))
			}
			if !slices.Equal(got[0], got[1]) {
				t.Fatalf("%d: %s %+q: %v, want %v", round, op, sub, got[0], got[1])
			}
		}
		if used == 0 {
			t.Error("no index used")
		}
	}
}

// TestFindDelete deletes what Find yields, and what it would yield.
func TestFindDelete(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateCategory(ctx, "/k", "T", "n == 1"), tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/a", "T", props{"n": 1}), tx.Create(ctx, "/c/b", "T", props{"n": 1}))
	})
	for _, e := range []string{"", "n == 1"} {
		_ = s.Update(ctx, func(tx *docstore.Tx) error {
			n := 0
			for d, err := range tx.Find(ctx, "T", e, nil) {
				must(t, err)
				if n++; n == 1 {
					must(t, tx.Delete(ctx, "/c/b", false))
				} else {
					t.Errorf("%q: %v", e, d)
				}
			}
			return errors.New("stop")
		})
	}
}

func TestTypedPlans(t *testing.T) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(3, 3))
	values := []any{nil, true, false, int64(1), uint64(1), 1.0, 1.5, math.Copysign(0, -1), int64(0), "1", "", "true", "null", "~n", int64(-1), uint64(1 << 63), 9.223372036854775807e18, int64(-1 << 63), []any{int64(1)}, map[string]any{"a": int64(1)}, []byte("x"), "e\u0301", "é"}
	exprs := []string{"a == p0", "a == 1", "a == 1u", "a == 1.0", "a == null", "a == true", "a == ''", "!(a == 1)", "this.a == p0", "a == b", "a == p0 && b == p1", "a == p0 || b == p1", "p0 == a", "b.a == p0", "a in [p0]", "a != null && a == p0", "has(this.a)", "a == 'e\u0301'", "size(this) == 1"}
	a, b := open(t, nil), open(t, nil)
	update(t, a, func(tx *docstore.Tx) error {
		errs := []error{}
		for i, e := range []string{"a", "b", "this.a", "b.a", "this.b", "a == null"} {
			errs = append(errs, tx.CreateCatalogue(ctx, docstore.Path(fmt.Sprint("/l", i)), "T", e))
		}
		for i, e := range []string{"a == 1", "!(a == 1)", "a == b", "has(this.a)", "a == null", "a != null", "size(this) == 1"} {
			errs = append(errs, tx.CreateCategory(ctx, docstore.Path(fmt.Sprint("/k", i)), "T", e))
		}
		return errors.Join(append(errs, tx.CreateIndex(ctx, "/i", "T", "a"))...)
	})
	for i := range 120 {
		p := props{}
		if r.IntN(5) > 0 {
			p["a"] = values[r.IntN(len(values))]
		}
		if r.IntN(3) > 0 {
			p["b"] = values[r.IntN(len(values))]
		}
		if r.IntN(20) == 0 {
			p["this"] = map[string]any{"a": "other"}
		}
		if r.IntN(20) == 0 {
			p["p0"] = int64(1)
		}
		for _, s := range []*docstore.Store{a, b} {
			update(t, s, func(tx *docstore.Tx) error { return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%03d", i)), "T", p) })
		}
	}
	checked(t, a)
	for range 600 {
		e := exprs[r.IntN(len(exprs))]
		opts := &docstore.FindOptions{}
		if r.IntN(4) > 0 {
			opts.Params = []any{values[r.IntN(len(values))], values[r.IntN(len(values))]}[:1+r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			opts.After, opts.Limit = docstore.Path(fmt.Sprintf("/%03d", r.IntN(120))), 1+r.IntN(20)
		}
		var got [2]string
		for i, s := range []*docstore.Store{a, b} {
			must(t, s.View(ctx, func(tx *docstore.Tx) error {
				for d, err := range tx.Find(ctx, "T", e, opts) {
					if err != nil {
						t.Fatalf("%s %v: %v", e, opts, err)
					}
					got[i] += string(d.Path)
				}
				return nil
			}))
		}
		if got[0] != got[1] {
			t.Errorf("%s %#v: %s, want %s", e, opts.Params, got[0], got[1])
		}
	}
}
