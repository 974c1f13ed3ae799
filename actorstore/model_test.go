package actorstore_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A replayer runs scripts against an actor and a map, and says where they differ.
// A line is one operation:
//
//	commit atomic|ordered durable|applied; WRITE; …
//	get READER KEY
//	list READER START END PREFIX LIMIT forward|reverse
//	snapshot NAME
//	close NAME
//	wake MS             replaces when the actor must be woken, 0 for never
//	label VALUE         sets the actor's label, - removes it
//	use                 adds a turn to what the actor has used
//	reopen              closes the handle and takes the actor over again
//	restart             closes handle, store and engine, and opens them again
//	drop
//
// and those of farreplay_test.go.
//
// A WRITE is put KEY SIZE PRIOR, delete KEY PRIOR, range START END PRIOR, with
// "final" before it in the final group, or by MS: the actor must be woken by then. PRIOR is ? or known. READER is actor, view
// or the NAME of a snapshot; keys are quoted, - means without bound.
type replayer struct {
	eng     kv.Engine
	below   kv.Engine // what eng fails the operations of, nil if it doesn't
	restart func(kv.Engine) (kv.Engine, error)
	opts    actorstore.Options
	store   *actorstore.Store
	actor   *actorstore.Actor

	model contents
	seq   uint64
	wake  int64  // when the actor must be woken, 0 for never
	label string // "" for none
	turns int64  // that the actor has used
	snaps map[string]pinned
	made  int // values made, so that all are different
}

type contents map[string]string

type pinned struct {
	snap  *actorstore.Snapshot
	owner *actorstore.Actor
	model contents
	seq   uint64
	pages bool // it is a PageSnapshot, which isn't listed
}

var modelLimits = batch.Limits{KeySize: 64, ValueSize: 45_000, Entries: 3, Payload: 60_000, Storage: 150_000}

func (c contents) used() (n int64) {
	for k, v := range c {
		n += quota.Cost([]byte(k), int64(len(v)))
	}
	return n
}

func (r *replayer) open() (err error) {
	r.opts.Limits = modelLimits
	if r.store, err = actorstore.Open(ctx, r.eng, &r.opts); err != nil {
		return err
	}
	r.actor, err = r.store.Actor(ctx, testID, &actorstore.ActorOptions{Name: "model"})
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
			// Without a commit the name is missing; Named makes an id of its own.
			err = errors.Join(r.actor.Close(), r.reopenByID())
		}
	case "restart":
		if err = r.close(); err == nil {
			r.eng, err = r.restart(r.eng)
		}
		if err == nil {
			err = r.open()
		}
	case "wake":
		err = r.setWake(number(w[1]))
	case "label":
		err = r.setLabel(strings.Trim(w[1], "-"))
	case "use":
		err = r.use()
	case "drop":
		if err = r.actor.Drop(ctx); err == nil {
			r.model, r.seq, r.wake, r.label, r.turns = contents{}, 0, 0, "", 0
			err = r.reopenByID()
		}
	default:
		err = r.runFar(w)
	}
	if err == nil && (r.actor.Used() != r.model.used() || r.actor.Seq() != r.seq) {
		err = fmt.Errorf("%d used, seq %d, want %d, %d", r.actor.Used(), r.actor.Seq(), r.model.used(), r.seq)
	}
	if err == nil {
		err = r.compareWake()
	}
	if err == nil {
		err = r.compareLabel()
	}
	if err == nil {
		err = r.compareUsage()
	}
	return err
}

func (r *replayer) setLabel(value string) error {
	seq := r.seq
	var b batch.Batch
	r.actor.StageAttributes(&b, func(at *actorstore.Attributes) error {
		at.Labels = map[string]string{"l": value}
		return nil
	})
	err := r.actor.Apply(ctx, &b)
	switch {
	case err != nil:
		err = r.mishap(err, new(batch.Batch), nil, r.model)
	case value != r.label:
		r.seq++
	}
	if r.seq > seq {
		r.label = value
	}
	return err
}

func (r *replayer) use() error {
	seq := r.seq
	var b batch.Batch
	r.actor.StageUsage(&b, func() actorstore.Usage { return actorstore.Usage{Turns: 1} })
	err := r.actor.Apply(ctx, &b)
	if err != nil {
		err = r.mishap(err, new(batch.Batch), nil, r.model)
	} else {
		r.seq++
	}
	if r.seq > seq {
		r.turns++
	}
	return err
}

// compareUsage compares what the actor has used.
func (r *replayer) compareUsage() error {
	var turns int64
	id := layout.ID(r.actor.ID())
	row, err := cmp.Or(r.below, r.eng).Get(ctx, layout.RecordKey(id, layout.PartUsage), nil)
	if err == nil {
		var u layout.Usage
		u, err = layout.ParseUsage(id, row)
		turns = int64(u.Turns)
	} else if errors.Is(err, kv.ErrNotFound) {
		err = nil
	}
	if err == nil && turns != r.turns {
		err = fmt.Errorf("the actor has used %d turns, want %d", turns, r.turns)
	}
	return err
}

// compareLabel compares the label, and the index of it.
func (r *replayer) compareLabel() error {
	var want, got []string
	if r.label != "" {
		want = []string{r.label}
	}
	start, end := layout.RowsRange(layout.KindIndex)
	for e, err := range cmp.Or(r.below, r.eng).Scan(ctx, kv.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		row, err := layout.ParseIndexKey(e.Key)
		if err != nil {
			return err
		}
		got = append(got, row.Text)
	}
	if at := r.actor.Attributes(); !slices.Equal(got, want) || at.Labels["l"] != r.label {
		return fmt.Errorf("the actor has the labels %v, the index %q, want %q", at.Labels, got, want)
	}
	return nil
}

func (r *replayer) setWake(ms int64) error {
	seq := r.seq
	err := r.actor.SetWake(ctx, wakeAt(ms))
	switch {
	case err != nil:
		err = r.mishap(err, new(batch.Batch), nil, r.model)
	case r.seq > 0 && ms != r.wake:
		r.seq++
	}
	if r.seq > seq {
		r.wake = ms
	}
	return err
}

// compareWake compares when the actor must be woken, and the index of that.
func (r *replayer) compareWake() error {
	want := []int64{r.wake}
	if r.wake == 0 {
		want = nil
	}
	var got []int64
	start, end := layout.RowsRange(layout.KindWake)
	for e, err := range cmp.Or(r.below, r.eng).Scan(ctx, kv.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		_, id, err := layout.ParseWakeKey(e.Key)
		if err != nil {
			return err
		}
		w, err := layout.ParseWaking(id, e.Value)
		if err != nil {
			return err
		}
		got = append(got, w.At)
	}
	if at := r.actor.Wake().At; !slices.Equal(got, want) || !at.Equal(wakeAt(r.wake).At) {
		return fmt.Errorf("the actor is to be woken at %v, the index has %d, want %d", at, got, want)
	}
	return nil
}

func wakeAt(ms int64) (w actorstore.Wake) {
	if ms != 0 {
		w.At = time.UnixMilli(ms)
	}
	return w
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (r *replayer) reopenByID() (err error) {
	r.actor, err = r.store.Actor(ctx, testID, &actorstore.ActorOptions{Name: "model"})
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
		if by, ok := strings.CutPrefix(p, "by "); ok {
			b.WakeBy(time.UnixMilli(number(by)))
		} else if text, ok := strings.CutPrefix(p, "final "); ok {
			r.stage(b.Final(), strings.Fields(text))
		} else {
			r.stage(&b.Group, strings.Fields(p))
		}
	}
	defer func(seq uint64) { // a part that landed brings it forward
		if by := b.WakeTime(); r.seq > seq && by != 0 && (r.wake == 0 || by < r.wake) {
			r.wake = by
		}
	}(r.seq)
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
		if !errors.Is(err, actorstore.ErrQuota) {
			return fmt.Errorf("got %w, want %w", err, actorstore.ErrQuota)
		}
		return nil
	}
	if err != nil {
		return r.mishap(err, &b, subs, next)
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
func (r *replayer) reader(name string) (actorstore.Reader, contents, func() error, error) {
	keep := func() error { return nil }
	switch name {
	case "actor":
		return r.actor, r.model, keep, nil
	case "view":
		v, err := r.store.View(ctx, testID)
		if r.seq == 0 && errors.Is(err, actorstore.ErrUnknownActor) {
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
	if errors.Is(err, faultkv.ErrInjected) {
		return errors.Join(err, done())
	}
	want, ok := model[key]
	if ok != (err == nil) || err != nil && err != actorstore.ErrNotFound || string(v) != want {
		return fmt.Errorf("got %.20q… of %d bytes, %v, want %.20q… of %d", v, len(v), err, want, len(want))
	}
	page, err := from.Page(ctx, []byte(key), nil)
	if errors.Is(err, faultkv.ErrInjected) {
		return errors.Join(err, done())
	}
	if want = want[:min(len(want), layout.RowSize)]; (want != "") != (err == nil) || string(page) != want {
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
	o := actorstore.ListOptions{Limit: limit, Reverse: w[5] == "reverse", Start: []byte(unquote(w[1])), Prefix: []byte(unquote(w[3]))}
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
		if p, ok := r.snaps[w[0]]; ok && p.pages {
			if !errors.Is(err, actorstore.ErrPagesOnly) {
				return fmt.Errorf("got %v, want %w", err, actorstore.ErrPagesOnly)
			}
			return done()
		}
		if err != nil {
			return errors.Join(err, done())
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
	r.snaps[name] = pinned{s, r.actor, maps.Clone(r.model), r.seq, false}
	return err
}
