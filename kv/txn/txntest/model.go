package txntest

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// parseModel reads what suite.WantScan compares with.
func parseModel(s string) suite.Model {
	m := suite.Model{}
	for _, f := range strings.Fields(s) {
		k, v, _ := strings.Cut(f, "=")
		m[k] = v
	}
	return m
}

// A txModel is the oracle of transactions: one state, what has been written to it in
// which order, and the transactions that are open.
type txModel struct {
	state suite.Model
	// commits are the spans that each commit has written.
	commits [][]txn.Span
	open    map[string]*txModelTx
}

// A txModelTx is one open transaction, as it should be.
type txModelTx struct {
	m *txModel
	// seen is what it reads, own writes included; nil before the first read.
	seen suite.Model
	// pinned is how many commits there were at the first read, and base the state.
	pinned int
	base   suite.Model
	writes []txWrite
	// reads is what the transaction depends on, and known what its own writes alone
	// decide.
	reads, known []txn.Span
}

// A txWrite is one write of a transaction.
type txWrite struct {
	op       kv.Op
	atomic   bool
	mutation txn.Mutation
}

func (w txWrite) span() txn.Span {
	if !w.atomic && w.op.Kind == kv.OpClearRange {
		return txn.Span{Start: w.op.Key, End: w.op.Value}
	}
	return keySpan(w.op.Key)
}

func keySpan(key []byte) txn.Span {
	return txn.Span{Start: key, End: append(bytes.Clone(key), 0)}
}

// apply does a write to a state.
func (w txWrite) apply(m suite.Model) {
	if !w.atomic {
		m.Apply([]kv.Op{w.op})
		return
	}
	k := string(w.op.Key)
	v, ok := m[k]
	if after, exists := w.mutation.Apply([]byte(v), ok, w.op.Value); exists {
		m[k] = string(after)
	} else {
		delete(m, k)
	}
}

func newTxModel() *txModel { return &txModel{state: suite.Model{}, open: map[string]*txModelTx{}} }

// commit applies writes, of a transaction or not.
func (m *txModel) commit(writes []txWrite) {
	var spans []txn.Span
	for _, w := range writes {
		w.apply(m.state)
		spans = append(spans, w.span())
	}
	m.commits = append(m.commits, spans)
}

func (m *txModel) begin(name string) { m.open[name] = &txModelTx{m: m} }

// pin fixes the state of the transaction.
func (t *txModelTx) pin() {
	if t.seen != nil {
		return
	}
	t.pinned, t.base, t.seen = len(t.m.commits), maps.Clone(t.m.state), maps.Clone(t.m.state)
	for _, w := range t.writes {
		w.apply(t.seen)
	}
}

func (t *txModelTx) write(w txWrite) {
	if s := w.span(); bytes.Compare(s.Start, s.End) >= 0 {
		return // an inverted range is no write
	}
	t.writes = append(t.writes, w)
	if t.seen != nil {
		w.apply(t.seen)
	}
	// What an atomic operation makes depends on what is there.
	if !w.atomic {
		t.known = append(t.known, w.span())
	}
}

// get returns the value of a key.
func (t *txModelTx) get(key []byte, serial bool) (string, bool) {
	t.pin()
	if serial {
		t.read(keySpan(key))
	}
	v, ok := t.seen[string(key)]
	return v, ok
}

// scan returns the keys of a range.
func (t *txModelTx) scan(r kv.Range, serial bool) []string {
	t.pin()
	keys := t.seen.Keys(r)
	s := txn.Span{Start: r.Start, End: r.End}
	if r.Limit > 0 && len(keys) == r.Limit {
		last := keySpan([]byte(keys[len(keys)-1]))
		if r.Reverse {
			s.Start = last.Start
		} else {
			s.End = last.End
		}
	}
	if serial {
		t.read(s)
	}
	return keys
}

// key returns the key that sel selects.
func (t *txModelTx) key(sel txn.Selector, serial bool) (string, bool) {
	border := bytes.Clone(sel.Key)
	if sel.OrEqual {
		border = append(border, 0)
	}
	r := kv.Range{Start: border, Limit: sel.Offset}
	if sel.Offset < 1 {
		r = kv.Range{End: append([]byte{}, border...), Limit: 1 - sel.Offset, Reverse: true}
	}
	keys := t.scan(r, serial)
	if len(keys) < r.Limit {
		return "", false
	}
	return keys[r.Limit-1], true
}

// read notes a span, without what the transaction knows already.
func (t *txModelTx) read(s txn.Span) {
	left := []txn.Span{s}
	for _, cut := range t.known {
		var rest []txn.Span
		for _, s := range left {
			rest = append(rest, subtract(s, cut)...)
		}
		left = rest
	}
	t.reads = append(t.reads, left...)
}

// subtract returns what is in s and not in cut.
func subtract(s, cut txn.Span) []txn.Span {
	if !overlap(s, cut) {
		return []txn.Span{s}
	}
	var out []txn.Span
	if bytes.Compare(s.Start, cut.Start) < 0 {
		out = append(out, txn.Span{Start: s.Start, End: cut.Start})
	}
	if cut.End != nil && (s.End == nil || bytes.Compare(cut.End, s.End) < 0) {
		out = append(out, txn.Span{Start: cut.End, End: s.End})
	}
	return out
}

// overlap reports whether a key is in both.
func overlap(a, b txn.Span) bool {
	below := func(key, end []byte) bool { return end == nil || bytes.Compare(key, end) < 0 }
	return below(a.Start, a.End) && below(b.Start, b.End) && below(a.Start, b.End) && below(b.Start, a.End)
}

// conflicts reports whether the transaction must not commit.
func (t *txModelTx) conflicts() bool {
	if len(t.writes) == 0 || t.seen == nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat(t.m.commits[t.pinned:]...), func(written txn.Span) bool {
		return slices.ContainsFunc(t.reads, func(read txn.Span) bool { return overlap(read, written) })
	})
}

// outdated reports whether the transaction must not commit, whoever counts: something
// that it has read has changed, and not back.
func (t *txModelTx) outdated() bool {
	if len(t.writes) == 0 || t.seen == nil {
		return false
	}
	differs := func(a, b suite.Model) bool {
		for k, v := range a {
			if now, ok := b[k]; (!ok || now != v) && slices.ContainsFunc(t.reads, func(r txn.Span) bool { return overlap(r, keySpan([]byte(k))) }) {
				return true
			}
		}
		return false
	}
	return differs(t.base, t.m.state) || differs(t.m.state, t.base)
}
