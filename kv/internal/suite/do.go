package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Do does a step that reads or writes, and returns what it read. Without a transaction it only reads.
func (s *Step) Do(ctx context.Context, tx *txn.Tx, r kv.Reader) (saw string, err error) {
	switch s.Verb {
	case "set":
		return "", tx.Set(s.Key, s.Value)
	case "clear":
		return "", tx.Clear(s.Key)
	case "clearrange":
		return "", tx.ClearRange(s.Key, s.Value)
	case "mutation":
		return "", tx.Atomic(s.Mutation, s.Key, s.Value)
	}
	get := func() ([]byte, error) { return r.Get(ctx, s.Key, nil) }
	sel := txn.Selector{Key: s.Key, OrEqual: s.OrEqual, Offset: s.Offset}
	switch {
	case s.Verb == "scan":
		return s.scan(ctx, r)
	case s.Verb == "key" && s.Snapshot:
		get = func() ([]byte, error) { return tx.Snapshot().GetKey(ctx, sel, nil) }
	case s.Verb == "key":
		get = func() ([]byte, error) { return tx.GetKey(ctx, sel, nil) }
	case s.Verb == "get" && s.Snapshot:
		get = func() ([]byte, error) { return tx.Snapshot().Get(ctx, s.Key, nil) }
	}
	v, err := get()
	if errors.Is(err, kv.ErrNotFound) {
		return "-", nil
	}
	return show(string(v)), err
}

func (s *Step) scan(ctx context.Context, r kv.Reader) (string, error) {
	if s.Snapshot {
		r = r.(*txn.Tx).Snapshot()
	}
	var saw []string
	for e, err := range r.Scan(ctx, s.Range) {
		if err != nil {
			return "", err
		}
		saw = append(saw, show(string(e.Key))+"="+show(string(e.Value)))
		if len(saw) == s.Stop {
			break
		}
	}
	return orNone(strings.Join(saw, " ")), nil
}

// Redo does the step on a state of the oracle, and returns what it should have read, and where.
func (s *Step) Redo(m Model) (saw string, read txn.Span) {
	switch s.Verb {
	case "get":
		if v, ok := m[string(s.Key)]; ok {
			return show(v), KeySpan(s.Key)
		}
		return "-", KeySpan(s.Key)
	case "scan":
		r := s.Range
		if s.Stop > 0 && (r.Limit == 0 || s.Stop < r.Limit) {
			r.Limit = s.Stop
		}
		var entries []string
		keys, read := m.read(r)
		for _, k := range keys {
			entries = append(entries, show(k)+"="+show(m[k]))
		}
		return orNone(strings.Join(entries, " ")), read
	case "key":
		return s.selected(m)
	case "mutation":
		m.mutate(s)
	default:
		m.Apply([]kv.Op{s.Op()})
	}
	return "", txn.Span{}
}

// selected is Redo of a selector.
func (s *Step) selected(m Model) (string, txn.Span) {
	border := bytes.Clone(s.Key)
	if s.OrEqual {
		border = append(border, 0)
	}
	r := kv.Range{Start: border, Limit: s.Offset}
	if s.Offset < 1 {
		r = kv.Range{End: append([]byte{}, border...), Limit: 1 - s.Offset, Reverse: true}
	}
	keys, read := m.read(r)
	if len(keys) < r.Limit {
		return "-", read
	}
	return show(keys[r.Limit-1]), read
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// show prints bytes as a script has them; of large ones that are no pattern, a part and a checksum.
func show(b string) string {
	if rest, ok := strings.CutPrefix(b, longPrefix); ok {
		return "long" + show(rest)
	}
	if len(b) > 4000 {
		return fmt.Sprintf("%q… (%d bytes, %08x)", b[:20], len(b), crc32.ChecksumIEEE([]byte(b)))
	}
	return strconv.Quote(b)
}
