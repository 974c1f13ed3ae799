package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// An Erased is what Erase has done.
type Erased struct {
	// Actors are the ids that the name had, or the one that was given.
	Actors []actorstore.ID
	// Segments and Bases are how many were written anew, Removed how many objects were removed.
	Segments, Bases, Removed int
}

// Erase removes an actor from all that is kept, as if it had never been: its rows, its name, and where it stands in indexes. The actor is given by
// its name, which may have been that of several, or, if name begins with "id:", by its id. What it has sent to others stays theirs.
//
// No Writer may write there meanwhile: one that does ends with ErrFenced, and goes on with its lineage when its process starts another one. Of each
// lineage the oldest base is written anew, by way of a folder in temp, which is the system's if it is empty, and takes as much room as the
// store; later bases are removed, so that restores read more of the log until the Writer makes one. An Erase that failed is to be called
// again. It doesn't touch the store itself, whose next base may have what the store still has: drop the actor there before.
//
// Errors: ErrNotArchive, kv.ErrNotFound if nothing is kept of an actor of that name, kv.ErrCorrupt with the name of the object, those of the bucket and of the disk.
func Erase(ctx context.Context, b bucket.Bucket, name, temp string) (e Erased, err error) {
	m, err := readManifest(ctx, b)
	if err != nil {
		return e, err
	}
	l, err := newLink(nil, b, nil)
	if err != nil {
		return e, err
	}
	w := &eraser{link: l, a: &Archive{b, m}, out: &e, temp: temp, ids: map[actorstore.ID]bool{}}
	if w.unpack, err = newDecoder(); err != nil {
		return e, err
	}
	defer w.unpack.Close()
	if w.pack, err = newEncoder(); err != nil {
		return e, err
	}
	lines, err := readLines(ctx, b)
	if err != nil {
		return e, err
	}
	if err := w.find(ctx, lines, name); err != nil {
		return e, err
	}
	if e.Actors = slices.Collect(maps.Keys(w.ids)); len(e.Actors) > 0 {
		return e, w.run(ctx, lines)
	}
	if err := w.finish(ctx, lines); err != nil {
		return e, err
	}
	if e.Removed == 0 {
		return e, fmt.Errorf("the actor %q: %w", name, kv.ErrNotFound)
	}
	return e, nil
}

// An eraser is one run of Erase.
type eraser struct {
	link   *link
	a      *Archive
	out    *Erased
	temp   string
	name   string // "" if an id was given
	ids    map[actorstore.ID]bool
	unpack *zstd.Decoder
	pack   *zstd.Encoder
}

// run erases the actors.
func (w *eraser) run(ctx context.Context, lines []lineage) error {
	if err := w.fence(ctx); err != nil {
		return err
	}
	if err := w.unlisted(ctx, lines); err != nil {
		return err
	}
	for _, line := range slices.Backward(lines) {
		if err := w.line(ctx, line.number); err != nil {
			return err
		}
	}
	return w.tables(ctx, lines)
}

// finish removes the tables that an Erase has left which was cut short at its end: no base has anything of its actor any more. Once a Writer has
// begun it leaves that to Collect, for a base that isn't stored yet may need them.
func (w *eraser) finish(ctx context.Context, lines []lineage) error {
	newest, err := newestEpoch(ctx, w.a.bucket)
	if err != nil || newest == 0 {
		return err
	}
	var last epoch
	if err := readJSON(ctx, w.a.bucket, epochName(newest), &last); err != nil {
		return err
	}
	if last.Store != eraserStore {
		return nil
	}
	if err := w.fence(ctx); err != nil {
		return err
	}
	return w.tables(ctx, lines)
}

// eraserStore is what the epoch of an Erase says of its store.
const eraserStore = "an Erase"

// fence takes an epoch, so that a Writer of before ends when it looks.
func (w *eraser) fence(ctx context.Context) error {
	newest, err := newestEpoch(ctx, w.a.bucket)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // "" where it isn't known
	return storeEpoch(ctx, w.a.bucket, newest+1, &epoch{Since: time.Now().UTC(), Host: host, PID: os.Getpid(), Store: eraserStore})
}

// find finds the ids of the actor: those that each base has for the name, and each segment.
func (w *eraser) find(ctx context.Context, lines []lineage, name string) error {
	if text, ok := strings.CutPrefix(name, "id:"); ok {
		id, err := actorstore.ParseID(text)
		w.ids[id] = true
		return err
	}
	row, err := actorstore.NameRow(name)
	if err != nil {
		return err
	}
	w.name = name
	for _, line := range lines {
		bases, err := readBases(ctx, w.a.bucket, line.number)
		if err != nil {
			return err
		}
		for _, base := range bases {
			id, err := w.a.named(ctx, w.a.manifest.bookmark(line.number, base.first), name)
			if err == nil {
				w.ids[id] = true
			} else if !errors.Is(err, kv.ErrNotFound) {
				return err
			}
		}
		log, err := readLog(ctx, w.a.bucket, line.number)
		if err != nil {
			return err
		}
		in := &segmentReader{ctx: ctx, bucket: w.a.bucket, z: w.unpack, groups: []group{wide, ofName(name)}}
		for _, s := range log {
			_, found, err := in.read(s.name)
			if err != nil {
				return err
			}
			for _, ops := range found {
				if err := w.named(name, row, ops); err != nil {
					return damaged(s.name, err)
				}
			}
		}
	}
	return nil
}

// named adds the ids that operations give the name.
func (w *eraser) named(name string, row, ops []byte) error {
	batch, err := pebblekv.JoinOps(ops)
	if err != nil {
		return err
	}
	for op, err := range (pebblekv.Record{Batch: batch}).Ops() {
		if err != nil {
			return err
		}
		if string(op.Key) != string(row) || op.Value == nil {
			continue
		}
		id, err := actorstore.ParseNameRow(name, op.Value)
		if err != nil {
			return err
		}
		w.ids[id] = true
	}
	return nil
}

// erased reports whether a row is one that goes.
func (w *eraser) erased(key []byte) bool {
	if name, ok := actorstore.RowName(key); ok {
		return name == w.name && w.name != ""
	}
	id, ok := actorstore.RowAbout(key)
	return ok && w.ids[id]
}

// unlisted removes what there is of lineages that aren't there: of some a Collect that was cut short has left it, and another one was about to
// begin, which its Writer does anew.
func (w *eraser) unlisted(ctx context.Context, lines []lineage) error {
	for o, err := range w.a.bucket.List(ctx, linePrefix) {
		if err != nil {
			return err
		}
		number, ok := lineOf(o.Name)
		if !ok || slices.ContainsFunc(lines, func(l lineage) bool { return l.number == number }) {
			continue
		}
		if err := w.remove(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// line erases in a lineage: from its end to its beginning, for what gives the actor its name is before all else that the lineage has of it. An
// Erase that is called again after an error finds the actor by that.
func (w *eraser) line(ctx context.Context, line uint64) error {
	bases, err := readBases(ctx, w.a.bucket, line)
	if err != nil || len(bases) == 0 {
		return err
	}
	for _, b := range bases[1:] {
		if err := w.remove(ctx, b.name); err != nil {
			return err
		}
	}
	all, err := listLog(ctx, w.a.bucket, line)
	if err != nil {
		return err
	}
	log, covered := split(all)
	for _, s := range covered {
		if err := w.remove(ctx, s.name); err != nil {
			return err
		}
	}
	for _, s := range slices.Backward(log) {
		if err := w.segment(ctx, s); err != nil {
			return err
		}
	}
	return w.base(ctx, bases[0].name)
}

func (w *eraser) remove(ctx context.Context, name string) error {
	w.out.Removed++
	return w.a.bucket.Delete(ctx, name)
}

// segment writes a segment anew if it has anything of the actor.
func (w *eraser) segment(ctx context.Context, s numbered) error {
	b, err := joined(ctx, w.a.bucket, []numbered{s})
	if err != nil {
		return err
	}
	kept, changed := newBuilder(b.before), false
	for g, run := range b.groups {
		for r := (&runReader{b: run.fragments}); len(r.b) > 0; {
			behind, all := r.uint(), r.data()
			ops, err := w.without(all)
			if err != nil {
				return damaged(s.name, err)
			}
			changed = changed || len(ops) != len(all)
			to := g
			if len(ops) == 0 { // the record keeps its number, and nothing says of which actor it was
				to, ops = rest, []byte(pebblekv.NoOp)
			}
			kept.run([]byte(to)).add(behind, ops)
		}
	}
	if !changed {
		return nil
	}
	b.groups = kept.groups
	w.out.Segments++
	return bucket.PutBytes(ctx, w.a.bucket, s.name, b.encode(w.pack), bucket.Replacing)
}

// without returns operations without those on rows that go.
func (w *eraser) without(ops []byte) (kept []byte, err error) {
	if string(ops) == pebblekv.NoOp {
		return ops, nil
	}
	batch, err := pebblekv.JoinOps(ops)
	if err != nil {
		return nil, err
	}
	for op, err := range (pebblekv.Record{Batch: batch}).Ops() {
		if err != nil {
			return nil, err
		}
		if !w.erased(op.Key) {
			kept = append(kept, op.Raw...)
		}
	}
	return kept, nil
}

// base writes a base anew.
func (w *eraser) base(ctx context.Context, name string) (err error) {
	list, err := readBase(ctx, w.a.bucket, name)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(w.temp, "greenroom-erase-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dir = filepath.Join(dir, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := w.a.files(ctx, list, dir, &progress{}); err != nil {
		return err
	}
	ranges, err := w.ranges(ctx, dir)
	if err != nil {
		return err
	}
	if err := pebblekv.Erase(ctx, dir, ranges); err != nil {
		return err
	}
	db, err := pebblekv.Open(dir, &pebblekv.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	base, err := db.Records().Base(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	if base.Number != list.Number {
		return fmt.Errorf("archive: the base %s has %d commits when it is written anew", name, base.Number)
	}
	if list.Files, err = w.link.storeFiles(ctx, base, known{}); err != nil {
		return err
	}
	data, err := list.encode()
	if err != nil {
		return err
	}
	w.out.Bases++
	return bucket.PutBytes(ctx, w.a.bucket, name, data, bucket.Replacing)
}

// ranges returns what goes of a store: the ranges of the actors, their names, and rows of indexes.
func (w *eraser) ranges(ctx context.Context, dir string) (ranges []kv.Range, err error) {
	for id := range w.ids {
		ranges = append(ranges, actorstore.RowRanges(id)...)
	}
	db, err := pebblekv.Open(dir, &pebblekv.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for e, err := range db.Scan(ctx, actorstore.IndexRows()) {
		if err != nil {
			return nil, err
		}
		if w.erased(e.Key) {
			key := slices.Clone(e.Key)
			ranges = append(ranges, kv.Range{Start: key, End: append(slices.Clone(key), 0)})
		}
	}
	return ranges, nil
}

// tables removes the tables that no base has any more.
func (w *eraser) tables(ctx context.Context, lines []lineage) error {
	used := map[string]bool{}
	for _, line := range lines {
		bases, err := readBases(ctx, w.a.bucket, line.number)
		if err != nil {
			return err
		}
		for _, b := range bases {
			l, err := readBase(ctx, w.a.bucket, b.name)
			if err != nil {
				return err
			}
			for i := range l.Files {
				used[l.Files[i].object()] = true
			}
		}
	}
	for o, err := range w.a.bucket.List(ctx, tablePrefix) {
		if err == nil && !used[o.Name] {
			err = w.remove(ctx, o.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
