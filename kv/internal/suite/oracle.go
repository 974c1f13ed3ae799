package suite

import (
	"bytes"
	"slices"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// An oracle knows what a store with its transactions does.
type oracle struct {
	state Model
	// commits are the spans that each commit has written.
	commits [][]txn.Span
}

// commit applies steps that write, of a transaction or not.
func (o *oracle) commit(steps []*Step) {
	var spans []txn.Span
	for _, s := range steps {
		s.Redo(o.state)
		spans = append(spans, s.span())
	}
	o.commits = append(o.commits, spans)
}

// An oracleTx is one open transaction, as it should be.
type oracleTx struct {
	o *oracle
	// seen is what it reads, own writes included; nil before the first read.
	seen Model
	// pinned is how many commits there were at the first read, and base the state.
	pinned int
	base   Model
	writes []*Step
	// reads is what the transaction depends on, and known what its own writes alone
	// decide.
	reads, known []txn.Span
}

// do does a step and returns what it should have read.
func (t *oracleTx) do(s *Step) (saw string) {
	if s.Writes() {
		t.write(s)
		return ""
	}
	if t.seen == nil {
		t.pinned, t.base, t.seen = len(t.o.commits), t.o.state.Clone(), t.o.state.Clone()
		for _, w := range t.writes {
			w.Redo(t.seen)
		}
	}
	saw, read := s.Redo(t.seen)
	if !s.Snapshot {
		t.read(read)
	}
	return saw
}

func (t *oracleTx) write(s *Step) {
	span := s.span()
	if bytes.Compare(span.Start, span.End) >= 0 {
		return // an inverted range writes nothing
	}
	t.writes = append(t.writes, s)
	if t.seen != nil {
		s.Redo(t.seen)
	}
	// What an atomic operation makes depends on what is there.
	if s.Verb != "mutation" {
		t.known = append(t.known, span)
	}
}

// read notes a span, without what the transaction knows already.
func (t *oracleTx) read(s txn.Span) {
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
func (t *oracleTx) conflicts() bool {
	if len(t.writes) == 0 || t.seen == nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat(t.o.commits[t.pinned:]...), func(written txn.Span) bool {
		return slices.ContainsFunc(t.reads, func(read txn.Span) bool { return overlap(read, written) })
	})
}

// outdated reports whether the transaction must not commit on any engine: something
// that it read changed, and not back.
func (t *oracleTx) outdated() bool {
	if len(t.writes) == 0 || t.seen == nil {
		return false
	}
	differs := func(a, b Model) bool {
		for k, v := range a {
			if now, ok := b[k]; (!ok || now != v) && slices.ContainsFunc(t.reads, func(r txn.Span) bool { return overlap(r, KeySpan([]byte(k))) }) {
				return true
			}
		}
		return false
	}
	return differs(t.base, t.o.state) || differs(t.o.state, t.base)
}
