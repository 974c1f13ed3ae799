package itemstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A rig is a store beside a model of it.
type rig struct {
	testing.TB
	ctx     context.Context
	rnd     *rand.Rand
	s       *itemstore.Store
	m       *model
	clients []*client
	log     []string // what was done, to be read when a test fails

	// types are the types of the schema by those of the model, where the two differ; untold are the groups of which Sync
	// doesn't tell all.
	types  map[reflect.Type]reflect.Type
	untold map[string]bool
}

// vary returns a schema with the types of the model, whose key paths have options at random.
func (r *rig) vary() (*itemstore.Schema, error) {
	versioned := map[string]bool{}
	r.types, r.untold = map[reflect.Type]reflect.Type{}, map[string]bool{}
	var list []itemstore.Type
	for _, item := range []any{Person{}, Task{}, Note{}, Slot{}} {
		t := reflect.TypeOf(item)
		var fields []reflect.StructField
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" {
				var paths []string
				for n, path := range strings.Split(f.Tag.Get("path"), ",") {
					path = strings.Fields(path)[0]
					group, _, _ := strings.Cut(path[1:], "-")
					if _, ok := versioned[group]; !ok {
						versioned[group] = r.rnd.IntN(3) == 0
					}
					index := strings.Contains(path, "@")
					if versioned[group] && !index {
						path += " versioned"
					}
					if n > 0 && r.rnd.IntN(3) == 0 {
						path += " ref"
					}
					if !index && r.rnd.IntN(6) == 0 {
						path += " nosync"
						r.untold["/"+group] = true
					}
					paths = append(paths, path)
				}
				f.Tag = reflect.StructTag(fmt.Sprintf("name:%q path:%q ttl:%q", t.Name(), strings.Join(paths, ", "), f.Tag.Get("ttl")))
				if f.Tag.Get("ttl") == "" {
					f.Tag = reflect.StructTag(fmt.Sprintf("name:%q path:%q", t.Name(), strings.Join(paths, ", ")))
				}
				r.did("the key paths of %s: %s", t.Name(), strings.Join(paths, ", "))
			}
			fields = append(fields, reflect.StructField{Name: f.Name, PkgPath: f.PkgPath, Type: f.Type, Tag: f.Tag})
		}
		r.types[t] = reflect.StructOf(fields)
		list = append(list, itemstore.TypeOfReflect(r.types[t]))
	}
	return itemstore.NewSchema(1, list...)
}

// to returns an item of the model as one of the schema, and from the other way, in the same memory.
func (r *rig) to(item any) any {
	if t := r.types[reflect.TypeOf(item).Elem()]; t != nil {
		return reflect.ValueOf(item).Convert(reflect.PointerTo(t)).Interface()
	}
	return item
}

func (r *rig) from(item any) any {
	for model, t := range r.types {
		if reflect.TypeOf(item).Elem() == t {
			return reflect.ValueOf(item).Convert(reflect.PointerTo(model)).Interface()
		}
	}
	return item
}

func newRig(t testing.TB, e kv.Engine, seed uint64) *rig {
	t.Helper()
	r := &rig{TB: t, ctx: t.Context(), rnd: rand.New(rand.NewPCG(seed, 1)), m: newModel(time.Unix(1_700_000_000, 0))}
	schema, err := modelSchema()
	if seed > 0 {
		schema, err = r.vary()
	}
	if err != nil {
		t.Fatal(err)
	}
	opts := &itemstore.Options{Now: func() time.Time { return r.m.now }, TombstoneAge: time.Hour}
	opts.Transactions.MaxAge = time.Hour
	if r.s, err = itemstore.Open(r.ctx, e, "model", schema, opts); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) did(format string, args ...any) {
	r.log = append(r.log, clipped(fmt.Sprintf(format, args...)))
}

func (r *rig) fail(format string, args ...any) {
	r.Helper()
	r.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(r.log[max(0, len(r.log)-15):], "\n"))
}

func (r *rig) item() any {
	n := func(most int) int { return r.rnd.IntN(most) }
	switch n(4) {
	case 0:
		p := &Person{ID: uint64(1 + n(12)), Team: n(4), Name: []string{"", "Ada", "Bo%/b", "Ä\x00"}[n(4)]}
		if n(2) == 0 {
			p.Email = fmt.Sprintf("%d/%%@x", n(8))
		}
		return p
	case 1:
		t := &Task{Team: 1 + n(3), Owner: uint64(n(13))}
		if n(2) == 0 {
			t.N = int64(1 + n(12))
		}
		t.Key[3] = byte(n(6))
		return t
	case 2:
		note := &Note{Person: uint64(1 + n(12)), Text: make([]byte, []int{0, 10, 95_000, 200_001}[n(4)])}
		if n(2) == 0 {
			note.Until = r.m.now.Add(time.Duration(n(30)-2) * time.Minute)
		}
		return note
	}
	s := &Slot{Day: n(7) - 3, Person: uint64(n(13)), Room: []string{"", "a", "b-c"}[n(3)]}
	if s.At.Hour = int8(n(10)); s.Day == 0 {
		s.Day = 300
	}
	if s.At.Hour == 0 {
		s.At.Hour = 23
	}
	return s
}

// anyPath returns a path of the model's, now and then one that isn't there.
func (r *rig) anyPath() itemstore.Path {
	all := r.m.list("", &itemstore.ListOptions{})
	if len(all) == 0 || r.rnd.IntN(8) == 0 {
		p := pathsOf(r.item())
		return p[0]
	}
	for {
		p := pathsOf(all[r.rnd.IntN(len(all))].item)
		if q := p[r.rnd.IntN(len(p))]; !isIndex(q) {
			return q
		}
	}
}

var prefixes = []itemstore.Path{"", "/person-1", "/person-2", "/person-3/task", "/person-4/note", "/team-1", "/team-2/task", "/team-3/person",
	"/team-2/@byName", "/team-1/@byName-Ada", "/person-1/@slots", "/day--1", "/day-300/slot", "/room-a", "/room-b-c/day--2", "/email-3%/%%@x"}

func (r *rig) options(prefix itemstore.Path) *itemstore.ListOptions {
	o := &itemstore.ListOptions{Reverse: r.rnd.IntN(2) == 0, Limit: r.rnd.IntN(5)}
	if r.rnd.IntN(3) == 0 {
		o.Types = []string{"Person", "Slot"}[r.rnd.IntN(2):]
	}
	if r.rnd.IntN(3) == 0 {
		o.Filters = filterOfModel
	}
	if r.rnd.IntN(3) == 0 {
		in := r.m.list(prefix, &itemstore.ListOptions{})
		if len(in) > 1 && prefix != "" {
			a, b := in[r.rnd.IntN(len(in))].path, in[r.rnd.IntN(len(in))].path
			switch r.rnd.IntN(4) {
			case 0:
				o.AtLeast, o.LessThan = a, b
			case 1:
				o.GreaterThan = a
			case 2:
				o.AtMost = a
			case 3:
				o.GreaterThan, o.AtMost = a, b
			}
		}
	}
	return o
}

func (r *rig) compare(what string, got []itemstore.Item, want []entry) {
	r.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			r.fail("%s lacks %s", what, want[i].path)
		case i >= len(want):
			r.fail("%s has %s too much", what, got[i].Path)
		case got[i].Path != want[i].path || got[i].Primary != want[i].primary:
			r.fail("%s has %s of %s, want %s of %s", what, got[i].Path, got[i].Primary, want[i].path, want[i].primary)
		}
		if d := same(r.from(got[i].Value), want[i].item); d != "" {
			r.fail("%s: %s: %s", what, got[i].Path, d)
		}
	}
}

// step does something to both and compares.
func (r *rig) step() {
	r.Helper()
	switch r.rnd.IntN(14) {
	case 0, 1, 2, 3, 4:
		items := []any{r.item()}
		for r.rnd.IntN(3) == 0 {
			items = append(items, r.item())
		}
		r.putAll(items, r.rnd.IntN(4) == 0)
	case 5:
		r.swap()
	case 6:
		p := r.anyPath()
		r.did("delete %s", p)
		if err := r.s.Delete(r.ctx, p); err != nil {
			r.fail("delete: %v", err)
		}
		r.m.delete(p)
	case 7:
		r.update()
	case 8:
		r.m.now = r.m.now.Add(time.Duration(r.rnd.IntN(600)) * time.Second)
		r.did("it is %v", r.m.now.UTC())
	case 9:
		r.sweep()
	case 10:
		prefix := prefixes[r.rnd.IntN(len(prefixes))]
		o := r.options(prefix)
		r.did("list %s %+v", prefix, *o)
		var got []itemstore.Item
		for item, err := range r.s.List(r.ctx, prefix, o) {
			if err != nil {
				r.fail("list: %v", err)
			}
			got = append(got, item)
		}
		want := r.m.list(prefix, o)
		if o.Limit > 0 && len(want) > o.Limit {
			want = want[:o.Limit]
		}
		r.compare("the list", got, want)
	case 11:
		r.inTransaction()
	case 12:
		if r.rnd.IntN(5) == 0 {
			prefix := prefixes[1+r.rnd.IntN(len(prefixes)-1)]
			r.did("delete all of %s", prefix)
			if _, err := r.s.DeletePrefix(r.ctx, prefix); err != nil {
				r.fail("delete all: %v", err)
			}
			for _, e := range r.m.list(prefix, &itemstore.ListOptions{}) {
				delete(r.m.items, e.primary)
			}
			for p, item := range r.m.items { // what has ended goes, too
				if r.m.ended(item) && slices.ContainsFunc(pathsOf(item), func(p itemstore.Path) bool { return below(prefix, p) }) {
					delete(r.m.items, p)
				}
			}
		}
	case 13:
		r.client()
	}
}

func (r *rig) putAll(items []any, mustNotExist bool) {
	r.Helper()
	var copies []any
	for _, item := range items {
		c := reflect.New(reflect.TypeOf(item).Elem())
		c.Elem().Set(reflect.ValueOf(item).Elem())
		copies = append(copies, c.Interface())
		r.did("put %s, must not exist: %v", describe(item), mustNotExist)
	}
	var stored []any
	for _, item := range items {
		stored = append(stored, r.to(item))
	}
	err := r.s.PutAll(r.ctx, stored, &itemstore.PutOptions{MustNotExist: mustNotExist})
	want := r.m.put(copies, mustNotExist)
	if kind(err) != want {
		r.fail("put: %v, want %v", err, want)
	}
	if err != nil {
		return
	}
	for i, item := range items {
		if d := same(item, copies[i]); d != "" {
			r.fail("put: %s", d)
		}
	}
}

// swap exchanges the addresses of two people.
func (r *rig) swap() {
	r.Helper()
	var people []*Person
	for _, e := range r.m.list("", &itemstore.ListOptions{Types: []string{"Person"}}) {
		people = append(people, e.item.(*Person))
	}
	if len(people) < 2 {
		return
	}
	a, b := *people[r.rnd.IntN(len(people))], *people[r.rnd.IntN(len(people))]
	if a.ID == b.ID {
		return
	}
	a.Email, b.Email = b.Email, a.Email
	r.putAll([]any{&a, &b}, false)
}

func (r *rig) update() {
	r.Helper()
	id := uint64(1 + r.rnd.IntN(12))
	team, name := r.rnd.IntN(4), []string{"", "Cy", "Ada"}[r.rnd.IntN(3)]
	r.did("update person %d: team %d, %s", id, team, name)
	old, _ := r.m.items[itemstore.At("person", id)].(*Person)
	var p *Person
	err := r.s.Update(r.ctx, func(tx *itemstore.Tx) error {
		items, err := tx.Items(r.ctx, itemstore.At("person", id))
		if err != nil || len(items) == 0 {
			return errors.Join(err, itemstore.ErrNotFound)
		}
		p = r.from(items[0].Value).(*Person)
		if d := same(p, old); d != "" {
			return fmt.Errorf("update reads: %s", d)
		}
		p.Team, p.Name = team, name
		return tx.Put(r.ctx, items[0].Value, nil)
	})
	if old == nil {
		if kind(err) != itemstore.ErrNotFound {
			r.fail("update: %v", err)
		}
		return
	}
	next := *old
	next.Team, next.Name = team, name
	if err != nil || r.m.put([]any{&next}, false) != nil {
		r.fail("update: %v", err)
	}
	if d := same(p, &next); d != "" {
		r.fail("update: %s", d)
	}
}

func (r *rig) sweep() {
	r.did("sweep")
	if _, err := r.s.Sweep(r.ctx); err != nil {
		r.fail("sweep: %v", err)
	}
	for p, item := range r.m.items {
		if r.m.ended(item) {
			delete(r.m.items, p)
		}
	}
}

// inTransaction puts and deletes in one transaction, which sees it, and which may fail in the end.
func (r *rig) inTransaction() {
	r.Helper()
	next := r.m.clone()
	abort := fmt.Errorf("abort")
	err := r.s.Update(r.ctx, func(tx *itemstore.Tx) error {
		for range 1 + r.rnd.IntN(4) {
			if r.rnd.IntN(3) == 0 {
				p := r.anyPath()
				r.did("in a transaction delete %s", p)
				if err := tx.Delete(r.ctx, p); err != nil {
					return err
				}
				next.delete(p)
				continue
			}
			item := r.item()
			c := reflect.New(reflect.TypeOf(item).Elem())
			c.Elem().Set(reflect.ValueOf(item).Elem())
			r.did("in a transaction put %s", describe(item))
			err, want := tx.Put(r.ctx, r.to(item), nil), next.put([]any{c.Interface()}, false)
			if kind(err) != want {
				return fmt.Errorf("put: %v, want %v", err, want)
			}
		}
		prefix := prefixes[r.rnd.IntN(len(prefixes))]
		o := r.options(prefix)
		o.Limit = 0
		var got []itemstore.Item
		for item, err := range tx.List(r.ctx, prefix, o) {
			if err != nil {
				return err
			}
			got = append(got, item)
		}
		old := r.m
		r.m = next
		r.compare(fmt.Sprintf("the list %q of a transaction", prefix), got, next.list(prefix, o))
		r.m = old
		if r.rnd.IntN(3) == 0 {
			return abort
		}
		return nil
	})
	if err == nil {
		r.m = next
	} else if err != abort {
		r.fail("transaction: %v", err)
	}
}

// A client has a copy of a part of a list.
type client struct {
	prefix itemstore.Path
	opts   *itemstore.ListOptions
	token  itemstore.Token
	items  map[itemstore.Path]any
	edge   itemstore.Path // the last path that it has read of the list
	done   bool
}

// client has a client begin, read on, or sync.
func (r *rig) client() {
	r.Helper()
	if len(r.clients) < 4 || r.rnd.IntN(20) == 0 {
		c := &client{prefix: prefixes[1+r.rnd.IntN(len(prefixes)-1)], items: map[itemstore.Path]any{}}
		group, _, _ := strings.Cut(string(c.prefix), "-")
		if isIndex(c.prefix) || group == "/email" || r.untold[group] {
			return
		}
		c.opts = r.options(c.prefix)
		page, err := r.s.Page(r.ctx, c.prefix, c.opts)
		if err != nil {
			r.fail("page: %v", err)
		}
		c.read(r, page)
		r.did("a client begins with %s %+v: %d items, more %v", c.prefix, *c.opts, len(page.Items), page.More)
		r.clients = append(r.clients, c)
		return
	}
	c := r.clients[r.rnd.IntN(len(r.clients))]
	r.syncClient(c)
	if r.rnd.IntN(2) == 0 {
		page, err := r.s.NextPage(r.ctx, c.token, nil)
		if err != nil {
			r.fail("next page: %v", err)
		}
		r.did("the client of %s reads %d more, more %v", c.prefix, len(page.Items), page.More)
		c.read(r, page)
		r.checkClient(c)
	}
}

func (c *client) read(r *rig, page *itemstore.Page) {
	for _, item := range page.Items {
		c.items[item.Path], c.edge = r.from(item.Value), item.Path
	}
	c.token = page.Token
	c.done = c.done || !page.More
}

func (c *client) apply(r *rig, ch *itemstore.Changes) {
	if ch.Reset {
		clear(c.items)
	}
	for _, change := range ch.Changes {
		if change.Kind == itemstore.Changed {
			c.items[change.Path] = r.from(change.Item.Value)
		} else {
			delete(c.items, change.Path)
		}
	}
	c.token = ch.Token
}

func (r *rig) syncClient(c *client) {
	r.Helper()
	for more := true; more; {
		ch, err := r.s.Sync(r.ctx, c.token)
		if err != nil {
			r.fail("sync: %v", err)
		}
		r.did("the client of %s syncs: reset %v, %d changes, more %v", c.prefix, ch.Reset, len(ch.Changes), ch.More)
		c.apply(r, ch)
		more = ch.More
	}
	r.checkClient(c)
}

// checkClient compares what the client has with a list of now.
func (r *rig) checkClient(c *client) {
	r.Helper()
	r.sweepForClients()
	n := 0
	for _, e := range r.m.list(c.prefix, c.opts) {
		if before := comparePaths(e.path, c.edge); !c.done && (c.edge == "" || before > 0 != c.opts.Reverse && before != 0) {
			continue
		}
		n++
		if d := same(c.items[e.path], e.item); d != "" {
			r.fail("the client of %s has at %s: %s", c.prefix, e.path, d)
		}
	}
	if n != len(c.items) {
		r.fail("the client of %s has %d items, want %d", c.prefix, len(c.items), n)
	}
}

// sweepForClients takes what has ended, which no log tells before it is swept, out of what clients have.
func (r *rig) sweepForClients() {
	for _, c := range r.clients {
		for p, item := range c.items {
			if r.m.ended(item) {
				delete(c.items, p)
			}
		}
	}
}

// check compares all there is.
func (r *rig) check() {
	r.Helper()
	problems, err := r.s.Check(r.ctx)
	if err != nil {
		r.fail("check: %v", err)
	}
	for _, p := range problems {
		r.Errorf("check: %x: %s", p.Key, p.What)
	}
	if len(problems) > 0 {
		r.fail("check found %d problems", len(problems))
	}
	var got []itemstore.Item
	for item, err := range r.s.List(r.ctx, "", nil) {
		if err != nil {
			r.fail("list: %v", err)
		}
		got = append(got, item)
	}
	r.compare("the store", got, r.m.list("", &itemstore.ListOptions{}))
}

func testRandom(t *testing.T, open func(t testing.TB) kv.Engine, runs int) {
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open(t), seed)
			for i := range 300 {
				r.step()
				if i%50 == 49 {
					r.check()
				}
			}
		})
	}
}

func memory(t testing.TB) kv.Engine {
	e := memkv.New()
	t.Cleanup(func() { e.Close() })
	return e
}

func disk(t testing.TB) kv.Engine {
	e, err := pebblekv.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestRandom(t *testing.T) { testRandom(t, memory, testkit.Pick(3, 10, 500)) }

func TestRandomDisk(t *testing.T) { testRandom(t, disk, testkit.Pick(1, 2, 20)) }
