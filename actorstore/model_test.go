package actorstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A replayer runs scripts against an actor and a map, and says where they differ.
// A line is one operation:
//
//	commit atomic|ordered durable|applied; WRITE; …
//	get READER KEY
//	list READER START END PREFIX LIMIT forward|reverse
//	snapshot NAME
//	close NAME
//	reopen              closes the handle and takes the actor over again
//	restart             closes handle, store and engine, and opens them again
//	drop
//
// A WRITE is put KEY SIZE PRIOR, delete KEY PRIOR or range START END PRIOR, with
// "final" before it in the final group. PRIOR is ? or known. READER is actor, view
// or the NAME of a snapshot; keys are quoted, - is no bound.
type replayer struct {
	eng     kv.Engine
	restart func(kv.Engine) (kv.Engine, error)
	store   *Store
	actor   *Actor

	model contents
	seq   uint64
	snaps map[string]pinned
	made  int // values made, so that all are different
}

type contents map[string]string

type pinned struct {
	snap  *Snapshot
	model contents
	seq   uint64
}

var modelLimits = batch.Limits{KeySize: 64, ValueSize: 45_000, Entries: 3, Payload: 60_000, Storage: 150_000}

func (c contents) used() (n int64) {
	for k, v := range c {
		n += cost([]byte(k), int64(len(v)))
	}
	return n
}

func (r *replayer) open() (err error) {
	if r.store, err = Open(ctx, r.eng, &Options{Limits: modelLimits}); err != nil {
		return err
	}
	r.actor, err = r.store.Actor(ctx, testID, &ActorOptions{Name: "model"})
	return err
}

func (r *replayer) close() error {
	errs := []error{r.actor.Close(), r.store.Close()}
	for name, p := range r.snaps {
		errs = append(errs, p.snap.Close())
		delete(r.snaps, name)
	}
	return errors.Join(errs...)
}

// run runs one line and then compares what is cheap to compare.
func (r *replayer) run(line string) error {
	w := strings.Fields(line)
	var err error
	switch verb := strings.TrimSuffix(w[0], ";"); verb {
	case "commit":
		err = r.commit(line)
	case "get":
		err = r.get(w[1], unquote(w[2]))
	case "list":
		err = r.list(w[1:])
	case "snapshot":
		err = r.snapshot(w[1])
	case "close":
		err = r.snaps[w[1]].snap.Close()
		delete(r.snaps, w[1])
	case "reopen":
		if err = r.actor.Close(); err == nil {
			r.actor, err = r.store.Named(ctx, "model", nil)
		}
		if err == nil && r.seq == 0 {
			// Without a commit there is no name; Named makes an id of its own.
			err = errors.Join(r.actor.Close(), r.reopenByID())
		}
	case "restart":
		if err = r.close(); err == nil {
			r.eng, err = r.restart(r.eng)
		}
		if err == nil {
			err = r.open()
		}
	case "drop":
		if err = r.actor.Drop(ctx); err == nil {
			r.model, r.seq = contents{}, 0
			err = r.reopenByID()
		}
	default:
		err = fmt.Errorf("unknown operation %q", verb)
	}
	if err == nil && (r.actor.Used() != r.model.used() || r.actor.Seq() != r.seq) {
		err = fmt.Errorf("%d used, seq %d, want %d, %d", r.actor.Used(), r.actor.Seq(), r.model.used(), r.seq)
	}
	return err
}

func (r *replayer) reopenByID() (err error) {
	r.actor, err = r.store.Actor(ctx, testID, &ActorOptions{Name: "model"})
	return err
}

func unquote(s string) string {
	if s == "-" {
		return ""
	}
	u, err := strconv.Unquote(s)
	if err != nil {
		panic("bad key " + s)
	}
	return u
}

// value makes a value of n bytes in which no two rows are alike.
func (r *replayer) value(n int) string {
	r.made++
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%d.%d ", r.made, b.Len())
	}
	return b.String()[:n]
}

func (r *replayer) commit(line string) error {
	parts := strings.Split(line, "; ")
	head := strings.Fields(parts[0])
	var b batch.Batch
	if head[1] == "ordered" {
		b.Mode = batch.Ordered
	}
	for _, p := range parts[1:] {
		if text, ok := strings.CutPrefix(p, "final "); ok {
			r.stage(b.Final(), strings.Fields(text))
		} else {
			r.stage(&b.Group, strings.Fields(p))
		}
	}
	next := maps.Clone(r.model)
	for _, o := range slices.Concat(b.Ops(), b.Final().Ops()) {
		next.apply(o)
	}
	subs, err := b.Split(modelLimits, nil)
	if err != nil {
		return err
	}
	write := r.actor.Commit
	if head[2] == "applied" {
		write = r.actor.Apply
	}
	err = write(ctx, &b)
	if used := next.used(); used > r.model.used() && used > modelLimits.Storage {
		if !errors.Is(err, ErrQuota) {
			return fmt.Errorf("got %v, want %w", err, ErrQuota)
		}
		return nil
	}
	if err != nil {
		return err
	}
	r.model = next
	if b.Mode == batch.Ordered {
		r.seq += uint64(len(subs))
	} else if len(subs) > 0 {
		r.seq++
	}
	return nil
}

// stage puts one write into g, with what the model knows.
func (r *replayer) stage(g *batch.Group, w []string) {
	known := w[len(w)-1] == "known"
	prior := batch.PriorUnknown
	key := []byte(unquote(w[1]))
	if v, ok := r.model[string(key)]; known && ok {
		prior = batch.Stored(len(v))
	} else if known {
		prior = batch.Absent
	}
	switch w[0] {
	case "put":
		n, err := strconv.Atoi(w[2])
		if err != nil {
			panic(err)
		}
		g.PutPrior(key, []byte(r.value(n)), prior)
	case "delete":
		g.DeletePrior(key, prior)
	case "range":
		var end []byte
		if w[2] != "-" {
			end = []byte(unquote(w[2]))
		}
		if known {
			rest := maps.Clone(r.model)
			rest.apply(batch.Op{Kind: batch.DeleteRange, Key: key, Value: end})
			prior = batch.Freed(r.model.used() - rest.used())
		} else {
			prior = batch.PriorUnknown
		}
		g.DeleteRangePrior(key, end, prior)
	default:
		panic("bad write " + w[0])
	}
}

func (c contents) apply(o batch.Op) {
	switch o.Kind {
	case batch.Put:
		c[string(o.Key)] = string(o.Value)
	case batch.Delete:
		delete(c, string(o.Key))
	case batch.DeleteRange:
		maps.DeleteFunc(c, func(k, _ string) bool {
			return k >= string(o.Key) && (o.Value == nil || k < string(o.Value))
		})
	}
}

// reader returns what a line calls name, what it should show, and how to close it.
func (r *replayer) reader(name string) (Reader, contents, func() error, error) {
	keep := func() error { return nil }
	switch name {
	case "actor":
		return r.actor, r.model, keep, nil
	case "view":
		v, err := r.store.View(ctx, testID)
		if r.seq == 0 && errors.Is(err, ErrUnknownActor) {
			return r.actor, r.model, keep, nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if i := v.Info(); i.Seq != r.seq || i.Used != r.model.used() || i.Name != "model" {
			return nil, nil, nil, fmt.Errorf("the view says %+v", i)
		}
		return v, r.model, v.Close, nil
	}
	p := r.snaps[name]
	if p.snap.Seq() != p.seq {
		return nil, nil, nil, fmt.Errorf("seq %d, want %d", p.snap.Seq(), p.seq)
	}
	return p.snap, p.model, keep, nil
}

func (r *replayer) get(name, key string) error {
	from, model, done, err := r.reader(name)
	if err != nil {
		return err
	}
	v, err := from.Get(ctx, []byte(key), nil)
	want, ok := model[key]
	if ok != (err == nil) || err != nil && err != ErrNotFound || string(v) != want {
		return fmt.Errorf("got %.20q… of %d bytes, %v, want %.20q… of %d", v, len(v), err, want, len(want))
	}
	page, err := from.Page(ctx, []byte(key), nil)
	if want = want[:min(len(want), rowSize)]; (want != "") != (err == nil) || string(page) != want {
		return fmt.Errorf("page of %d bytes, %v, want %d", len(page), err, len(want))
	}
	return done()
}

func (r *replayer) list(w []string) error {
	from, model, done, err := r.reader(w[0])
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(w[4])
	if err != nil {
		return err
	}
	o := ListOptions{Limit: limit, Reverse: w[5] == "reverse", Start: []byte(unquote(w[1])), Prefix: []byte(unquote(w[3]))}
	if w[2] != "-" {
		o.End = []byte(unquote(w[2]))
	}
	var want []string
	for _, k := range sortedKeys(model) {
		if k >= string(o.Start) && (o.End == nil || k < string(o.End)) && strings.HasPrefix(k, string(o.Prefix)) {
			want = append(want, k+"="+model[k])
		}
	}
	if o.Reverse {
		slices.Reverse(want)
	}
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	var got []string
	for e, err := range from.List(ctx, o) {
		if err != nil {
			return err
		}
		got = append(got, string(e.Key)+"="+string(e.Value))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %.500q, want %.500q", got, want)
	}
	return done()
}

func (r *replayer) snapshot(name string) error {
	s, err := r.actor.Snapshot(ctx)
	r.snaps[name] = pinned{s, maps.Clone(r.model), r.seq}
	return err
}

// A generator makes random lines.
type generator struct {
	rnd   *rand.Rand
	snaps []string
	made  int
}

func (g *generator) pick(from ...string) string { return from[g.rnd.IntN(len(from))] }

func (g *generator) key() string {
	return strconv.Quote(g.pick("", "\x00", "\x04", "\x04a", "\x04a\x00", "\x04a\x00\xff", "\x04b", "\x05", "\x09\x00\x00", "\xff"))
}

func (g *generator) line() string {
	switch n := g.rnd.IntN(100); {
	case n < 50:
		return g.commit()
	case n < 65:
		return fmt.Sprintf("get %s %s", g.reader(), g.key())
	case n < 85:
		return fmt.Sprintf("list %s %s %s %s %d %s", g.reader(), g.pick("-", g.key()), g.pick("-", g.key()),
			g.pick("-", g.key()), max(0, g.rnd.IntN(6)-2), g.pick("forward", "reverse"))
	case n < 89:
		g.made++
		g.snaps = append(g.snaps, fmt.Sprint("s", g.made))
		return "snapshot " + g.snaps[len(g.snaps)-1]
	case n < 93 && len(g.snaps) > 0:
		i := g.rnd.IntN(len(g.snaps))
		name := g.snaps[i]
		g.snaps = slices.Delete(g.snaps, i, i+1)
		return "close " + name
	case n < 97:
		return "reopen"
	case n < 99:
		g.snaps = nil
		return "restart"
	}
	return "drop"
}

func (g *generator) reader() string {
	return g.pick(append([]string{"actor", "actor", "view"}, g.snaps...)...)
}

func (g *generator) commit() string {
	line := "commit " + g.pick("atomic", "ordered") + " " + g.pick("durable", "applied")
	for range g.rnd.IntN(6) {
		prior := g.pick("?", "known")
		switch g.rnd.IntN(6) {
		case 0:
			line += fmt.Sprintf("; delete %s %s", g.key(), prior)
		case 1:
			line += fmt.Sprintf("; range %s %s %s", g.key(), g.pick("-", g.key()), prior)
		default:
			line += fmt.Sprintf("; put %s %s %s", g.key(), g.pick("0", "1", "4096", "10000", "10001", "33000"), prior)
		}
	}
	if g.rnd.IntN(4) == 0 {
		line += fmt.Sprintf("; final put %s 7 ?", g.key())
	}
	return line
}

// onReplayers runs test with an empty actor on each engine.
func onReplayers(t *testing.T, test func(t *testing.T, r *replayer)) {
	start := func(t *testing.T, eng kv.Engine, restart func(kv.Engine) (kv.Engine, error)) {
		r := &replayer{eng: eng, restart: restart, model: contents{}, snaps: map[string]pinned{}}
		must(t, r.open())
		test(t, r)
		must(t, errors.Join(r.close(), r.eng.Close()))
	}
	t.Run("memkv", func(t *testing.T) {
		start(t, memkv.New(), func(eng kv.Engine) (kv.Engine, error) { return eng, nil })
	})
	t.Run("pebblekv", func(t *testing.T) {
		dir := t.TempDir()
		open := func() (kv.Engine, error) {
			return pebblekv.Open(dir, &pebblekv.Options{CacheBytes: 8 << 20, MemtableBytes: 1 << 20})
		}
		eng, err := open()
		must(t, err)
		start(t, eng, func(eng kv.Engine) (kv.Engine, error) {
			if err := eng.Close(); err != nil {
				return eng, err
			}
			return open()
		})
	})
}

// TestRandom runs random scripts, with fixed seeds and one that is new every time.
// A failure prints the script: as a file testdata/scripts/NAME.txt, it is run by
// TestScripts.
func TestRandom(t *testing.T) {
	steps := 600
	if testing.Short() {
		steps = 150
	}
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			onReplayers(t, func(t *testing.T, r *replayer) {
				g := &generator{rnd: rand.New(rand.NewPCG(seed, 0))}
				var script strings.Builder
				for range steps {
					line := g.line()
					script.WriteString(line + "\n")
					if err := r.run(line); err != nil {
						t.Fatalf("%s: %v\nthe script up to there:\n%s", line, err, script.String())
					}
				}
			})
		})
	}
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			must(t, err)
			onReplayers(t, func(t *testing.T, r *replayer) {
				for i, line := range strings.Split(strings.TrimSpace(string(script)), "\n") {
					if err := r.run(line); err != nil {
						t.Fatalf("line %d, %s: %v", i+1, line, err)
					}
				}
			})
		})
	}
}
