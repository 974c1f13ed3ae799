package actorstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
)

// A store from an earlier version lacks the attributes of its actors. What they should be follows from what the
// actors store, which is for others to say: BuildIndex asks them, actor by actor.

// A directory finds the actors of a registry.
type directory struct {
	registry
	built atomic.Bool // the index is known to be whole
}

// indexed returns ErrNotIndexed if the index isn't whole.
func (d *directory) indexed(ctx context.Context) error {
	if d.built.Load() {
		return nil
	}
	p, err := d.progress(ctx)
	if err == nil && !p.Done {
		err = ErrNotIndexed
	}
	d.built.Store(err == nil)
	return err
}

// progress reads how far the index is built.
func (d *directory) progress(ctx context.Context) (layout.Built, error) {
	row, err := d.eng.Get(ctx, layout.BuiltKey(), nil)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return layout.Built{}, nil
	case err != nil:
		return layout.Built{}, err
	}
	return layout.ParseBuilt(row)
}

// Indexed reports whether the index by which Actors finds actors is whole, as it is in a store that this version has made.
func (d *directory) Indexed(ctx context.Context) (bool, error) {
	err := d.indexed(ctx)
	if errors.Is(err, ErrNotIndexed) {
		return false, nil
	}
	return err == nil, err
}

// buildPage is how many actors are visited before what was done is recorded.
const buildPage = 256

// BuildIndex calls visit with each actor that isn't known to be indexed, so that it gives the actor the attributes that follow from what the actor
// stores (Actor.StageAttributes), and records how far it has come: after an error, or a crash, the next call goes on from there. In a store whose
// index is whole it does nothing, unless again is set, which begins at the first actor. It is for one caller at a time.
//
// Errors: visit's, which end it; those of the engine.
func (d *directory) BuildIndex(ctx context.Context, again bool, visit func(ctx context.Context, id ID) error) error {
	p, err := d.progress(ctx)
	was := p
	if again {
		p = layout.Built{}
	}
	for err == nil && !p.Done {
		if err = d.buildPage(ctx, &p, visit); err == nil && !was.Done {
			was, err = d.record(ctx, was, p)
		}
	}
	if err != nil {
		return fmt.Errorf("actorstore: build index: %w", err)
	}
	return nil
}

// buildPage visits the next actors.
func (d *directory) buildPage(ctx context.Context, p *layout.Built, visit func(ctx context.Context, id ID) error) error {
	o := keys.ScanOptions{}
	if p.After != (layout.ID{}) {
		o.After = layout.RecordAfter(p.After)
	}
	n := 0
	for row, err := range pagesOf[layout.RecordRow](ctx, &d.registry, layout.Rows(layout.KindHead), &o) {
		if err != nil {
			return err
		}
		if row.Key.Part != layout.PartHead {
			continue
		}
		if h, err := layout.ParseHead(row.Key.ID, row.Value); err != nil || h.Seq > 0 { // one that is damaged is visit's to report
			if err := visit(ctx, ID(row.Key.ID)); err != nil {
				return err
			}
		}
		p.After = row.Key.ID
		if n++; n == buildPage {
			return nil
		}
	}
	p.Done = true
	return nil
}

// record stores how far the index is built, and returns what is stored then: not p if another host builds it, too, and was faster.
func (d *directory) record(ctx context.Context, was, p layout.Built) (layout.Built, error) {
	c := kv.Commit{
		Checks:     []kv.Check{{Key: layout.BuiltKey(), Value: was.Append(nil), Absent: was == layout.Built{}}},
		Ops:        []kv.Op{kv.Set(layout.BuiltKey(), p.Append(nil))},
		Durability: kv.Applied,
	}
	if err := d.eng.Commit(ctx, &c); !errors.Is(err, kv.ErrConflict) {
		return p, err
	}
	return d.progress(ctx)
}

// RepairIndex removes the rows of the index that don't belong to an actor, and writes those that are missing. It returns how many
// there were. The attributes of the actors stay what they are.
func (d *directory) RepairIndex(ctx context.Context) (removed, written int, err error) {
	start, end := layout.RowsRange(layout.KindIndex)
	for e, err := range d.pages(ctx, start, end) {
		if err != nil {
			return removed, written, fmt.Errorf("actorstore: repair index: %w", err)
		}
		row, err := layout.ParseIndexKey(e.Key)
		done := false
		if err == nil {
			done, err = d.repairRow(ctx, row.ID, func(at *layout.Attributes) ([]kv.Op, error) {
				if at != nil && slices.Contains(at.Rows(row.ID), row) && len(e.Value) == 0 {
					return nil, nil
				}
				return []kv.Op{kv.Clear(e.Key)}, nil
			})
		}
		if err != nil {
			return removed, written, fmt.Errorf("actorstore: repair index: %w", rowError(err))
		}
		if done {
			removed++
		}
	}
	for id, err := range d.IDs(ctx) {
		done := false
		if err == nil {
			done, err = d.repairRow(ctx, layout.ID(id), func(at *layout.Attributes) (ops []kv.Op, err error) {
				if at == nil {
					return nil, nil
				}
				for _, row := range at.Rows(layout.ID(id)) {
					switch _, err := d.eng.Get(ctx, row.Key(), nil); {
					case errors.Is(err, kv.ErrNotFound):
						ops = append(ops, kv.Set(row.Key(), nil))
					case err != nil:
						return nil, err
					}
				}
				return ops, nil
			})
		}
		if err != nil {
			return removed, written, fmt.Errorf("actorstore: repair index: %w", err)
		}
		if done {
			written++
		}
	}
	return removed, written, nil
}

// repairRow commits the operations that ops returns for what an actor is found by, which must not change meanwhile. done says whether there were any.
func (d *directory) repairRow(ctx context.Context, id layout.ID, ops func(at *layout.Attributes) ([]kv.Op, error)) (done bool, err error) {
	key := layout.RecordKey(id, layout.PartIndex)
	for {
		var at *layout.Attributes
		row, err := d.eng.Get(ctx, key, nil)
		switch {
		case errors.Is(err, kv.ErrNotFound):
		case err != nil:
			return false, err
		default:
			found, err := layout.ParseAttributes(id, row)
			if err != nil {
				return false, err
			}
			at = &found
		}
		todo, err := ops(at)
		if err != nil || len(todo) == 0 {
			return false, err
		}
		err = d.eng.Commit(ctx, &kv.Commit{
			Checks: []kv.Check{{Key: key, Value: row, Absent: at == nil}}, Ops: todo, Durability: kv.Applied,
		})
		if !errors.Is(err, kv.ErrConflict) {
			return err == nil, err
		}
	}
}
