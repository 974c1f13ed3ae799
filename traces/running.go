package traces

// running is the list of the spans that run, oldest first: each chunk has it as it was when the
// chunk was cut. The lock of the store guards it.
type running struct {
	oldest, newest *Span
	n, bytes       int  // how many, and the size of the list in a chunk
	lost           bool // the beginning of one, or an end, was dropped: the recorder is to heal it
}

// refs lists the spans that run.
func (l *running) refs() []ref {
	refs := make([]ref, 0, l.n)
	for s := l.oldest; s != nil; s = s.next {
		refs = append(refs, ref{s.id, s.start, s.snapshot})
	}
	return refs
}

// link puts a span at the end of those that run.
func (l *running) link(s *Span) {
	s.older, l.newest = l.newest, s
	if s.older == nil {
		l.oldest = s
	} else {
		s.older.next = s
	}
	l.n++
	l.bytes += activeSize
	if s.snapshot.set {
		l.bytes += placeSize
	}
}

// leave takes a span out of those that run.
func (l *running) leave(s *Span, state spanState) {
	s.state = state
	if s.older == nil {
		l.oldest = s.next
	} else {
		s.older.next = s.next
	}
	if s.next == nil {
		l.newest = s.older
	} else {
		s.next.older = s.older
	}
	s.older, s.next = nil, nil
	l.n--
	l.bytes -= activeSize
	if s.snapshot.set {
		l.bytes -= placeSize
	}
}
