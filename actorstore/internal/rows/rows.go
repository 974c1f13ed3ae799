// Package rows reads the values of one actor from one state of an engine: it finds the rows of a
// logical key, checks them, and puts them together.
package rows

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Pool is what the Spaces of a store have in common. It is safe for concurrent use.
type Pool struct {
	bufs     sync.Pool // of *buf
	describe func(key []byte) string
}

// NewPool returns a Pool; describe puts a logical key into words, for errors.
func NewPool(describe func(key []byte) string) *Pool {
	p := &Pool{describe: describe}
	p.bufs.New = func() any { return new(buf) }
	return p
}

// A buf is scratch memory for the keys of one read.
type buf struct{ b []byte }

func (p *Pool) get() *buf  { return p.bufs.Get().(*buf) }
func (p *Pool) put(b *buf) { p.bufs.Put(b) }

// Corrupt returns an error that marks what is stored under a logical key as damaged, and says
// how. It wraps kv.ErrCorrupt.
func (p *Pool) Corrupt(key []byte, format string, args ...any) error {
	return fmt.Errorf("actorstore: %s: %s: %w", p.describe(key), fmt.Sprintf(format, args...), kv.ErrCorrupt)
}

// readError says which key could not be read. That it is missing needs no words,
// and no memory.
func (p *Pool) readError(key []byte, err error) error {
	if errors.Is(err, kv.ErrNotFound) {
		return kv.ErrNotFound
	}
	return fmt.Errorf("actorstore: read %s: %w", p.describe(key), err)
}

// A Space reads the rows of one actor from one state of the engine. It is safe for
// concurrent use, and cheap to copy with another Source.
type Space struct {
	Source kv.Reader
	Prefix layout.Prefix
	*Pool
}

// Of returns the Space of the same actor in another state.
func (s *Space) Of(src kv.Reader) Space { return Space{Source: src, Prefix: s.Prefix, Pool: s.Pool} }

// Read is Get if whole, else Page.
func (s *Space) Read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	if whole {
		return s.Get(ctx, key, dst)
	}
	return s.Page(ctx, key, dst)
}

// Page appends DATA row 0 of key to dst, the first 10,000 bytes of its value, with one Get of the
// engine. A key without one is kv.ErrNotFound, and dst is as it was after an error.
func (s *Space) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	k := s.get()
	k.b = layout.AppendData(s.Prefix.AppendBase(k.b[:0], key), 0)
	out, err := s.Source.Get(ctx, k.b, dst)
	s.put(k)
	n := len(out) - len(dst)
	switch {
	case err == nil && n > 0 && n <= layout.RowSize:
		return out, nil
	case err == nil:
		return dst, s.Corrupt(key, "DATA row 0 has %d bytes", n)
	}
	return dst, s.readError(key, err)
}

// rows appends the range of the rows of key to b: all of its columns, those too
// that should not be there.
func (s *Space) rows(b *buf, key []byte) kv.Range {
	b.b = s.Prefix.AppendBase(b.b[:0], key)
	n := len(b.b)
	b.b = append(layout.AppendBelow(b.b), b.b[:n]...)
	b.b = layout.AppendAbove(b.b)
	return kv.Range{Start: b.b[: n+1 : n+1], End: b.b[n+1:]}
}

// Get appends the value of key to dst. It reads and checks all of its rows, with one Scan. Errors are
// as Page's.
func (s *Space) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	k := s.get()
	defer s.put(k)
	r := s.rows(k, key)
	base := len(r.Start) - 1
	out, found := dst, false
	var sh layout.Shape
	for e, err := range s.Source.Scan(ctx, r) {
		if err != nil {
			return dst, s.readError(key, err)
		}
		found = true
		c, err := layout.ParseColumn(e.Key[base:])
		if err == nil {
			err = sh.Add(c, e.Value)
		}
		if err != nil {
			return dst, s.Corrupt(key, "%v", err)
		}
		if !c.Metadata {
			out = append(out, e.Value...)
		}
	}
	if !found {
		return dst, kv.ErrNotFound
	}
	if err := sh.End(); err != nil {
		return dst, s.Corrupt(key, "%v", err)
	}
	return out, nil
}

// NearSize is Size where reads don't cross a network: it asks for row 0, and for METADATA
// if that is missing, and only of what is larger for the last rows. An engine that keeps old
// versions of a key beside the newest must step over them in a scan, all that were
// written since it last tidied up, but not in a Get.
func (s *Space) NearSize(ctx context.Context, key []byte) (int64, error) {
	k := s.get()
	defer s.put(k)
	row, err := s.Page(ctx, key, k.b[:0])
	k.b = row[:0]
	switch {
	case err == nil && len(row) < layout.RowSize:
		return int64(len(row)), nil
	case err == nil:
		return s.Size(ctx, key)
	case !errors.Is(err, kv.ErrNotFound):
		return 0, err
	}
	name := s.get()
	defer s.put(name)
	name.b = layout.AppendMetadata(s.Prefix.AppendBase(name.b[:0], key))
	switch k.b, err = s.Source.Get(ctx, name.b, k.b); {
	case err == nil:
		return s.Size(ctx, key) // it is empty, or row 0 is missing
	case errors.Is(err, kv.ErrNotFound):
		return -1, nil
	}
	return 0, s.readError(key, err)
}

// Size returns the length of the value of key, −1 for a missing key. It reads the
// last two rows, which say it all, and checks no more.
func (s *Space) Size(ctx context.Context, key []byte) (int64, error) {
	k := s.get()
	defer s.put(k)
	r := s.rows(k, key)
	r.Reverse, r.Limit = true, 2
	base := len(r.Start) - 1
	n, size := 0, int64(-1)
	for e, err := range s.Source.Scan(ctx, r) {
		if err != nil {
			return 0, s.readError(key, err)
		}
		c, err := layout.ParseColumn(e.Key[base:])
		switch {
		case err != nil:
			return 0, s.Corrupt(key, "%v", err)
		case n == 0 && !c.Metadata:
			return 0, s.Corrupt(key, "METADATA is missing")
		case n == 0:
			size = 0
		case len(e.Value) == 0 || len(e.Value) > layout.RowSize:
			return 0, s.Corrupt(key, "DATA row %d has %d bytes", c.Index, len(e.Value))
		default:
			size = int64(c.Index)*layout.RowSize + int64(len(e.Value))
		}
		n++
	}
	return size, nil
}
