package check

import (
	"bytes"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// keys checks the keys of actors: the rows in a range, in ascending order.
type keys struct {
	*walk
	pull func() (kv.Entry, error, bool)
	stop func()   // ends the scan
	next kv.Entry // the row that comes next, valid until advance
	more bool     // whether there is one
}

// newKeys begins with the first row whose key begins with prefix.
func newKeys(w *walk, prefix []byte) *keys {
	k := &keys{walk: w}
	k.pull, k.stop = iter.Pull2(w.Src.Scan(w.ctx, prefixRange(prefix)))
	k.advance()
	return k
}

// advance goes to the next row.
func (k *keys) advance() {
	var err error
	k.next, err, k.more = k.pull()
	k.fail(err)
}

// A tally is what the rows of an actor add up to.
type tally struct {
	rows    int64
	used    int64 // Σ(key + 2 + value)
	damaged bool  // some rows are, so that used means nothing
}

// of checks the rows of one actor, which come next, by a layout of its keys, and goes
// behind them.
func (k *keys) of(id layout.ID, p *layout.Prefix, l uint8) (t tally) {
	rows := func(yield func(kv.Entry, error) bool) {
		for k.more && k.err == nil && bytes.HasPrefix(k.next.Key, p[:]) && yield(k.next, nil) {
			k.advance()
		}
	}
	for key := range Survey(p, rows) {
		k.key(id, l, key, &t)
	}
	return t
}

// key checks one key, or a run of rows without one.
func (k *keys) key(id layout.ID, l uint8, key *Key, t *tally) {
	t.rows += int64(key.Rows)
	t.damaged = t.damaged || key.Fault != ""
	if key.Stray {
		k.find(id, rowWords(key.Key), "%s%s", key.Fault, andMore(key.Rows-1))
		return
	}
	where, known := k.Describe(l, key.Key)
	find := func(format string, args ...any) { k.find(id, where, format, args...) }
	if key.Fault != "" {
		find("%s", key.Fault)
	}
	n, size := len(key.Key)+batch.WrapperBytes, key.Shape.Size
	t.used += int64(n + size)
	if !known {
		find("no namespace has a key of this form")
	}
	if n > k.Limits.KeySize {
		find("the key has %d bytes, limit %d", n, k.Limits.KeySize)
	}
	if key.Fault == "" && size > k.Limits.ValueSize {
		find("the value has %d bytes, limit %d", size, k.Limits.ValueSize)
	}
}

// unowned reports the rows that belong to no actor and come next, as long as they are below a bound.
func (k *keys) unowned(below func() bool) {
	first, n := bytes.Clone(k.next.Key), 0
	for owned := false; !owned && below(); _, owned = layout.ActorOf(k.next.Key) {
		n++
		k.advance()
	}
	k.find(layout.ID{}, rowWords(first), "its key belongs to no actor%s", andMore(n-1))
}
