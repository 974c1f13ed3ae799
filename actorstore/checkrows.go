package actorstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// A surveyor groups the rows of an actor, given in ascending order, by their key.
// Unlike a lister it goes on after damage. Its memory is that of two keys.
type surveyor struct {
	prefix *layout.Prefix
	// emit is called with each key when all its rows were there, and with each run
	// of rows that belong to no key. What it is given is valid until it returns.
	emit func(*surveyed) error

	begun bool // cur is yet to be emitted
	cur   surveyed
	base  []byte // what the rows of cur.key begin with
	spare []byte // the memory of the key before
}

// A surveyed is what a surveyor has found of one key, or of rows without one.
type surveyed struct {
	key   []byte
	stray bool         // rows that belong to no key: key is the first one's, physical
	rows  int          // how many rows there are
	fault string       // the first thing that is wrong with them, "" when nothing is
	shape layout.Shape // of the rows before the fault
}

// row takes the next row.
func (s *surveyor) row(e kv.Entry) error {
	if s.begun && !s.cur.stray && bytes.HasPrefix(e.Key, s.base) {
		s.add(e)
		return nil
	}
	key, n, err := s.prefix.ParseBase(s.spare[:0], e.Key)
	if err != nil && s.begun && s.cur.stray {
		s.cur.rows++
		return nil
	}
	if err := s.finish(); err != nil {
		return err
	}
	s.begun, s.spare = true, s.cur.key
	if err != nil {
		s.cur = surveyed{key: append(s.spare[:0], e.Key...), stray: true, rows: 1, fault: "its key wraps no key of an actor"}
		s.spare = nil
		return nil
	}
	s.cur = surveyed{key: key}
	s.base = append(s.base[:0], e.Key[:n]...)
	s.add(e)
	return nil
}

// add takes the next row of the key.
func (s *surveyor) add(e kv.Entry) {
	s.cur.rows++
	if s.cur.fault != "" {
		return // what follows from it is not worth telling
	}
	c, err := layout.ParseColumn(e.Key[len(s.base):])
	if err != nil {
		s.cur.fault = fmt.Sprintf("row %x is neither DATA nor METADATA: %v", e.Key[len(s.base):], err)
		return
	}
	switch err = s.cur.shape.Add(c, e.Value); {
	case err != nil && c.Metadata:
		s.cur.fault = "METADATA: " + err.Error()
	case err != nil:
		s.cur.fault = err.Error()
	}
}

// finish ends the key whose rows are being read, if any.
func (s *surveyor) finish() error {
	if !s.begun {
		return nil
	}
	s.begun = false
	if !s.cur.stray && s.cur.fault == "" {
		if err := s.cur.shape.End(); err != nil {
			s.cur.fault = err.Error()
		}
	}
	return s.emit(&s.cur)
}

// ID returns whose state it is.
func (s *Snapshot) ID() ID {
	id, _ := layout.ActorOf(s.state.Rows.Prefix[:]) // made of an id
	return ID(id)
}

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
		if err != nil && err != errStopped {
			yield(Entry{}, fmt.Errorf("actorstore: survey: %w", err))
		}
	}
}

func (s *Snapshot) survey(ctx context.Context, r kv.Range, yield func(Entry, error) bool) error {
	rows := surveyor{prefix: &s.state.Rows.Prefix, emit: func(k *surveyed) error {
		if k.stray {
			return nil
		}
		e, err := Entry{Key: k.key}, error(nil)
		if k.fault != "" {
			err = s.state.Rows.Corrupt(k.key, "%s", k.fault)
		} else {
			e.Size, e.Updated = k.shape.Size, time.UnixMilli(k.shape.Updated)
		}
		if !yield(e, err) {
			return errStopped
		}
		return nil
	}}
	for e, err := range s.state.Rows.Source.Scan(ctx, r) {
		if err == nil {
			err = s.state.Err()
		}
		if err == nil {
			err = rows.row(e)
		}
		if err != nil {
			return err
		}
	}
	return rows.finish()
}

// A stream is the rows of actors that a checker is yet to walk.
type stream struct {
	pull  func() (kv.Entry, error, bool)
	close func()
	head  kv.Entry // the next row, valid until advance
	more  bool     // whether there is one
}

// open begins with the first row of r.
func (s *stream) open(ctx context.Context, src kv.Reader, r kv.Range) error {
	s.pull, s.close = iter.Pull2(src.Scan(ctx, r))
	return s.advance()
}

// advance goes to the next row.
func (s *stream) advance() (err error) {
	s.head, err, s.more = s.pull()
	return err
}

// walkRows checks the rows of one actor, which the stream has come to, and goes
// behind them. It returns what the keys use, and how many findings there were with
// which that can't be told.
func (c *checker) walkRows(id ID, p *layout.Prefix) (t tally, err error) {
	rows := surveyor{prefix: p, emit: func(k *surveyed) error { return c.key(id, k, &t) }}
	for c.rows.more && bytes.HasPrefix(c.rows.head.Key, p[:]) {
		if err := rows.row(c.rows.head); err != nil {
			return t, err
		}
		if err := c.rows.advance(); err != nil {
			return t, err
		}
	}
	return t, rows.finish()
}

// A tally is what the rows of an actor add up to.
type tally struct {
	rows    int64
	used    int64 // Σ(key + 2 + value)
	damaged bool  // some rows are, so that used means nothing
}

// key checks one key, or a run of rows without one.
func (c *checker) key(id ID, k *surveyed, t *tally) error {
	t.rows += int64(k.rows)
	if k.stray {
		t.damaged = true
		return c.find(id, rowWords(k.key), "%s%s", k.fault, andMore(k.rows-1))
	}
	where, known := c.layout.describe(k.key), true
	if where == "" {
		where, known = Describe(k.key), false
	}
	if k.fault != "" {
		t.damaged = true
		if err := c.find(id, where, "%s", k.fault); err != nil {
			return err
		}
	}
	t.used += cost(k.key, int64(k.shape.Size))
	if !known {
		if err := c.find(id, where, "no namespace has a key of this form"); err != nil {
			return err
		}
	}
	l := c.store.limits
	if n := len(k.key) + batch.WrapperBytes; n > l.KeySize {
		if err := c.find(id, where, "the key has %d bytes, limit %d", n, l.KeySize); err != nil {
			return err
		}
	}
	if n := k.shape.Size; k.fault == "" && n > l.ValueSize {
		return c.find(id, where, "the value has %d bytes, limit %d", n, l.ValueSize)
	}
	return nil
}

// rowWords says which row a physical key is.
func rowWords(key []byte) string { return fmt.Sprintf("row %x", key) }

// andMore says how many rows behind the one that is told are like it.
func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", like %d more behind it", n)
}
