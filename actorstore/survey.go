package actorstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/check"
	"github.com/greenroomdb/greenroom/kv"
)

// Survey yields the keys in [start, end), nil meaning no bound, in ascending order,
// with their sizes and times and without their values, as List does with KeysOnly.
// But it goes on after damage: a key whose rows are damaged comes with an error
// that wraps ErrCorrupt, and an Entry that has nothing but its Key. Rows that belong
// to no key are left out. Any other error comes with a zero Entry and ends the
// sequence.
func (s *Snapshot) Survey(ctx context.Context, start, end []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := s.listable()
		if err == nil && (end == nil || bytes.Compare(start, end) < 0) {
			err = s.survey(ctx, s.state.Rows.Bounds(start, end), yield)
		}
		if err != nil {
			yield(Entry{}, fmt.Errorf("actorstore: survey: %w", err))
		}
	}
}

// survey yields the keys with rows in r. The error is another one than damage.
func (s *Snapshot) survey(ctx context.Context, r kv.Range, yield func(Entry, error) bool) error {
	rows := func(yield func(kv.Entry, error) bool) {
		for e, err := range s.state.Rows.Source.Scan(ctx, r) {
			if err == nil {
				err = s.state.Err()
			}
			if !yield(e, err) {
				return
			}
		}
	}
	for k, err := range check.Survey(&s.state.Rows.Prefix, rows) {
		if err != nil {
			return err
		}
		if k.Stray {
			continue
		}
		e := Entry{Key: k.Key}
		if k.Fault != "" {
			err = s.state.Rows.Corrupt(k.Key, "%s", k.Fault)
		} else {
			e.Size, e.Updated = k.Shape.Size, time.UnixMilli(k.Shape.Updated)
		}
		if !yield(e, err) {
			return nil
		}
	}
	return nil
}
