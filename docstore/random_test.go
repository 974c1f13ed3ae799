package docstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// A rig holds a store against a model.
type rig struct {
	*testing.T
	ctx context.Context
	s   *docstore.Store
	m   model
	rnd *rand.Rand
	log []string
}

func newRig(t *testing.T, e kv.Engine, seed uint64) *rig {
	t.Helper()
	r := &rig{T: t, ctx: t.Context(), m: model{}, rnd: rand.New(rand.NewPCG(seed, 0))}
	s, err := docstore.Open(r.ctx, e, "model", &docstore.Options{Compat: seed%3 == 1})
	must(t, err)
	docstore.Small(s)
	r.s = s
	return r
}

func (r *rig) did(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

func (r *rig) fail(format string, args ...any) {
	r.Helper()
	r.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(r.log, "\n"))
}

var (
	labels = []string{"b:c", "b:c", "b:c", "~x"}
	texts  = []string{"", "a", "ab", "abc", "abcd", "banana", "an:a", "the bandana", "xyz ana", "na"}
	words  = []any{"red", "a/b", "~i1", "30", "", "x:group:y", int64(1), 1.0, 30, 2.5, true, nil, []any{"list"}}
	parts  = []string{"p", "q:r", "s~t", "u", "v"}
)

func pick[T any](r *rig, list []T) T { return list[r.rnd.IntN(len(list))] }

// path returns a path, which may have an entity.
func (r *rig) path() docstore.Path {
	p := docstore.Root
	for range 1 + r.rnd.IntN(3) {
		p = p.Child(pick(r, parts))
	}
	return p
}

// existing returns the path of an entity, mostly, and never a virtual one.
func (r *rig) existing() docstore.Path {
	p := r.anyPath()
	for q := p.Parent(); q != docstore.Root; q = q.Parent() {
		if t := r.m[q]; t != nil && t.kind != docstore.KindContainer {
			return q
		}
	}
	return p
}

func (r *rig) anyPath() docstore.Path {
	var all []docstore.Path
	for p := range r.m {
		all = append(all, p)
	}
	if len(all) == 0 || r.rnd.IntN(10) == 0 {
		return r.path()
	}
	slices.Sort(all)
	return pick(r, all)
}

func (r *rig) props() docstore.Properties {
	p := docstore.Properties{}
	for _, name := range []string{"n", "s", "t", "g", "flag"} {
		if r.rnd.IntN(5) > 0 {
			p[name] = r.value(name)
		}
	}
	return p
}

func (r *rig) value(name string) any {
	switch name {
	case "n":
		return int64(r.rnd.IntN(6))
	case "s", "t":
		return pick(r, texts)
	case "flag":
		return r.rnd.IntN(2) == 0
	}
	switch v := pick(r, words).(type) {
	case int:
		return int64(v)
	default:
		return v
	}
}

// kindOf returns the sentinel of an error.
func kindOf(err error) error {
	for _, s := range []error{docstore.ErrNotFound, docstore.ErrExists, docstore.ErrNotEmpty, docstore.ErrOperation} {
		if errors.Is(err, s) {
			return s
		}
	}
	return err
}

// create puts an entity into the model, or returns why it can't.
func (m model) create(p docstore.Path, t *thing) error {
	parent := m[p.Parent()]
	switch {
	case p.Parent() != docstore.Root && parent == nil:
		return docstore.ErrNotFound
	case p.Parent() != docstore.Root && parent.kind != docstore.KindContainer:
		return docstore.ErrOperation
	case m[p] != nil:
		return docstore.ErrExists
	}
	m[p] = t
	return nil
}

// step does something in a transaction and in the model, and returns what each says.
func (r *rig) step(tx *docstore.Tx, m model) (got, want error) {
	switch n := r.rnd.IntN(24); {
	case n < 8:
		p, t := r.path(), &thing{kind: docstore.KindDocument, label: pick(r, labels), props: r.props()}
		r.did("create %s %s %v", p, t.label, t.props)
		return tx.Create(r.ctx, p, t.label, t.props), m.create(p, t)
	case n < 9:
		p := r.path()
		r.did("mkdir %s", p)
		return tx.CreateContainer(r.ctx, p), m.create(p, &thing{kind: docstore.KindContainer})
	case n < 11:
		kind := pick(r, []docstore.Kind{docstore.KindCategory, docstore.KindCatalogue, docstore.KindIndex})
		p, t := r.path(), &thing{kind: kind, label: pick(r, labels), rule: r.rnd.IntN(len(rules[kind]))}
		r.did("create %v %s %s %s", kind, p, t.label, rules[kind][t.rule].expression)
		do := map[docstore.Kind]func(context.Context, docstore.Path, string, string) error{docstore.KindCategory: tx.CreateCategory,
			docstore.KindCatalogue: tx.CreateCatalogue, docstore.KindIndex: tx.CreateIndex}[kind]
		return do(r.ctx, p, t.label, rules[kind][t.rule].expression), m.create(p, t)
	case n < 12:
		p, recursive := r.existing(), r.rnd.IntN(2) == 0
		r.did("delete %s %v", p, recursive)
		switch {
		case m[p] == nil:
			want = docstore.ErrNotFound
		case len(m.children(p)) > 0 && !recursive:
			want = docstore.ErrNotEmpty
		default:
			m.delete(p)
		}
		return tx.Delete(r.ctx, p, recursive), want
	case n < 13:
		from, to := r.existing(), r.path()
		r.did("move %s %s", from, to)
		switch t := m[from]; {
		case from == to || from.IsAncestorOf(to):
			want = docstore.ErrOperation
		case t == nil:
			want = docstore.ErrNotFound
		default:
			if want = m.create(to, t); want == nil {
				delete(m, to)
				m.move(from, to)
			}
		}
		return tx.Move(r.ctx, from, to), want
	}
	p, name := r.existing(), pick(r, []string{"n", "s", "t", "g", "flag"})
	t := m[p]
	switch {
	case t == nil:
		want = docstore.ErrNotFound
	case t.kind != docstore.KindDocument:
		want = docstore.ErrOperation
	}
	if want != nil {
		t = &thing{props: docstore.Properties{}}
	}
	switch r.rnd.IntN(6) {
	case 0:
		t.props = r.props()
		r.did("set %s %v", p, t.props)
		return tx.SetProperties(r.ctx, p, t.props), want
	case 1:
		delete(t.props, name)
		r.did("unset %s %s", p, name)
		return tx.RemoveProperty(r.ctx, p, name), want
	case 2:
		t.label = pick(r, labels)
		r.did("label %s %s", p, t.label)
		return tx.SetLabel(r.ctx, p, t.label), want
	}
	t.props[name] = r.value(name)
	r.did("set %s %s %v", p, name, t.props[name])
	return tx.SetProperty(r.ctx, p, name, t.props[name]), want
}

// change does some steps in one transaction, which is given up now and then.
func (r *rig) change() {
	r.Helper()
	stop := errors.New("stop")
	base := r.m
	err := r.s.Update(r.ctx, func(tx *docstore.Tx) error {
		r.m = base.clone()
		for range 1 + r.rnd.IntN(4) {
			before := r.m.clone()
			got, want := r.step(tx, r.m)
			if kindOf(got) != kindOf(want) {
				if errors.As(got, new(*docstore.Error)) && strings.Contains(got.Error(), "array") {
					return got // Update takes it apart
				}
				r.fail("got %v, want %v", got, want)
			}
			if want != nil && r.rnd.IntN(4) > 0 { // nothing was changed by what failed
				r.m = before
				continue
			}
			if want != nil {
				return stop
			}
		}
		if r.rnd.IntN(8) == 0 {
			return stop
		}
		return nil
	})
	switch {
	case errors.Is(err, stop):
		r.did("rolled back")
		r.m = base
	case err != nil:
		r.fail("update: %v", err)
	}
}

// check compares all that can be read.
func (r *rig) check() {
	r.Helper()
	for p, t := range r.m {
		if t.kind != docstore.KindContainer && t.kind != docstore.KindDocument {
			if err := r.s.Build(r.ctx, p, nil); err != nil {
				r.fail("build %s: %v", p, err)
			}
		}
	}
	err := r.s.View(r.ctx, func(tx *docstore.Tx) error {
		same := func(p docstore.Path, want []docstore.Path) {
			r.Helper()
			if got := list(r, tx.Members(r.ctx, p)); !slices.Equal(got, want) {
				r.fail("%s has %q, want %q", p, got, want)
			}
		}
		same(docstore.Root, r.m.children(docstore.Root))
		for p, t := range r.m {
			e, err := tx.Entity(r.ctx, p)
			if err != nil || e.Kind != t.kind || e.Label != t.label {
				r.fail("%s is %+v, %v, want %+v", p, e, err, t)
			}
			switch t.kind {
			case docstore.KindContainer:
				same(p, r.m.children(p))
			case docstore.KindDocument:
				if props, err := tx.Properties(r.ctx, p); err != nil || fmt.Sprint(props) != fmt.Sprint(t.props) {
					r.fail("%s has %v, %v, want %v", p, props, err, t.props)
				}
			case docstore.KindCategory:
				same(p, r.m.members(t, func(v any) bool { return v == true }))
			case docstore.KindCatalogue:
				groups := r.m.groups(t)
				var names []docstore.Path
				for name, members := range groups {
					names = append(names, docstore.Path(string(p)+"/"+name))
					same(names[len(names)-1], members)
				}
				slices.Sort(names)
				same(p, names)
			case docstore.KindIndex:
				pattern := pick(r, []string{"*", "%s", "*%s", "%s*", "*%s*"})
				if strings.Contains(pattern, "%s") {
					pattern = fmt.Sprintf(pattern, pick(r, texts))
				}
				want := r.m.members(t, func(v any) bool { return matchText(pattern, v.(string)) })
				if pattern != "" {
					same(p.Child(pattern), want)
				}
			}
		}
		for _, label := range labels[2:] {
			r.find(tx, label)
		}
		return nil
	})
	if err != nil {
		r.fail("view: %v", err)
	}
	if problems, err := r.s.Check(r.ctx); err != nil || len(problems) > 0 {
		r.fail("check: %v, %s", err, strings.Join(problems, "\n"))
	}
}

// find compares queries, whatever they read, with a look at each document.
func (r *rig) find(tx *docstore.Tx, label string) {
	r.Helper()
	for _, rs := range rules {
		for _, rule := range rs {
			expression, params := rule.expression, []any(nil)
			accept := func(v any) bool { return v == true }
			if rule.expression == "g" || strings.HasPrefix(rule.expression, "n %") {
				v := r.value("g")
				expression, params = rule.expression+" == p0", []any{v}
				accept = func(got any) bool {
					return fmt.Sprint(got) == fmt.Sprint(v) && (got == nil) == (v == nil) && isText(got) == isText(v)
				}
			} else if strings.HasPrefix(rule.expression, "s") && !strings.Contains(rule.expression, "||") {
				sub := pick(r, texts)
				expression, params = "("+rule.expression+").contains('"+sub+"') && 1 < 2", nil
				accept = func(got any) bool { return strings.Contains(got.(string), sub) }
			}
			var got, want []docstore.Path
			for d, err := range tx.Find(r.ctx, label, expression, &docstore.FindOptions{Params: params}) {
				must(r, err)
				got = append(got, d.Path)
			}
			for p, t := range r.m {
				if t.kind == docstore.KindDocument && t.label == label {
					if v, ok := rule.value(t.props); ok && accept(v) {
						want = append(want, p)
					}
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				plan, err := tx.Explain(r.ctx, label, expression, &docstore.FindOptions{Params: params})
				r.fail("find %s %s %v by %v, %v: got %q, want %q", label, expression, params, plan, err, got, want)
			}
		}
	}
}

func isText(v any) bool { _, ok := v.(string); return ok }

// dump returns all documented keys of a store with their values.
func dump(t testing.TB, s *docstore.Store) (all []docstore.Pair) {
	t.Helper()
	must(t, s.Dump(t.Context(), func(key string, value func(w io.Writer) error) error {
		var b bytes.Buffer
		err := value(&b)
		all = append(all, docstore.Pair{Key: key, Value: b.Bytes()})
		return err
	}))
	slices.SortFunc(all, func(a, b docstore.Pair) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// inOrder sorts the sets of a dump: with Options.Compat their order tells in which order the members came.
func inOrder(t testing.TB, all []docstore.Pair) []docstore.Pair {
	t.Helper()
	for i, p := range all {
		if list, err := element.Strings(p.Value); err == nil {
			slices.Sort(list)
			b, err := element.Append(nil, list)
			must(t, err)
			all[i].Value = b
		}
	}
	return all
}

// pairs yields a dump.
func pairs(all []docstore.Pair) func(yield func(docstore.Pair, error) bool) {
	return func(yield func(docstore.Pair, error) bool) {
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// sameDumps fails unless two dumps are the same.
func sameDumps(t testing.TB, got, want []docstore.Pair) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i].Key != want[i].Key || !bytes.Equal(got[i].Value, want[i].Value) {
			t.Fatalf("pair %d of %d and %d: got %q, want %q", i, len(got), len(want), got[min(i, len(got)):min(i+1, len(got))],
				want[min(i, len(want)):min(i+1, len(want))])
		}
	}
}

// reimport moves the store through its documented form into another one, which goes on in its place.
func (r *rig) reimport() {
	r.Helper()
	r.did("import")
	all := dump(r, r.s)
	e := memkv.New()
	s, err := docstore.Open(r.ctx, e, "copy", &docstore.Options{Compat: r.rnd.IntN(3) == 0})
	must(r, err)
	docstore.Small(s)
	if err := s.Import(r.ctx, pairs(all)); err != nil {
		r.fail("import: %v", err)
	}
	sameDumps(r, dump(r, s), all)
	for range min(3, len(all)) {
		p := pick(r, all)
		var b bytes.Buffer
		if err := s.Export(r.ctx, p.Key, &b); err != nil || !bytes.Equal(b.Bytes(), p.Value) {
			r.fail("export %q: %q, %v, want %q", p.Key, b.Bytes(), err, p.Value)
		}
	}
	r.s = s
}

// rebuild builds something anew, which must change nothing.
func (r *rig) rebuild() {
	r.Helper()
	p := r.existing()
	if t := r.m[p]; t == nil || t.kind == docstore.KindContainer || t.kind == docstore.KindDocument {
		return
	}
	r.did("rebuild %s", p)
	before := dump(r, r.s)
	if err := r.s.Build(r.ctx, p, nil); err != nil {
		r.fail("build %s: %v", p, err)
	}
	if len(dump(r, r.s)) == len(before) { // it was built
		before = dump(r, r.s)
		if err := r.s.Rebuild(r.ctx, p, nil); err != nil {
			r.fail("rebuild %s: %v", p, err)
		}
		sameDumps(r, inOrder(r, dump(r, r.s)), inOrder(r, before))
	}
}

func testRandom(t *testing.T, open func(t testing.TB) kv.Engine, seeds int) {
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open(t), uint64(seed))
			for i := range 150 {
				r.change()
				if i%15 == 14 {
					r.check()
				}
				switch i % 50 {
				case 20:
					r.rebuild()
				case 49:
					r.check()
					r.reimport()
					r.check()
				}
			}
		})
	}
}

func memory(t testing.TB) kv.Engine { return memkv.New() }

func disk(t testing.TB) kv.Engine {
	e, err := pebblekv.Open(t.TempDir(), nil)
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

func postgres(t testing.TB) kv.Engine {
	n := pgtest.Shared(t)
	e, err := pgkv.Open(t.Context(), n.URL("connect_timeout=60&schema="+url.QueryEscape(n.Schema())), nil)
	must(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// TestRandom holds stores against the model: random changes, builds, and ways through the documented form.
func TestRandom(t *testing.T) { testRandom(t, memory, testkit.Pick(3, 9, 400)) }

func TestRandomDisk(t *testing.T) { testRandom(t, disk, testkit.Pick(1, 2, 20)) }

func TestRandomPostgres(t *testing.T) { testRandom(t, postgres, testkit.Pick(1, 1, 4)) }
