package vfs

// A predictor says how much to read when a page is missing. It belongs to one
// connection, because a pattern does: several scans at once are several connections,
// or several streams of one.
//
// A stream is a run of reads that go on in one direction, forward or backward (SQLite
// walks a b-tree either way), with gaps: the pages of a table lie between those of
// other tables and indexes. A few streams are followed at once, so that an index scan
// and the table that it leads to don't disturb each other. What is read for a stream at
// once, its window, grows fourfold as long as it is used, and shrinks when it isn't.
//
// A read that belongs to no stream gets its own page and nothing else. Since a few
// scattered reads may look like a stream by chance, a stream is on credit until it has
// proven itself: what was read ahead in vain may not exceed half of what was asked for.
// So a scattered pattern costs one read per page, and less than twice the bytes.
//
// Everything is counted in chunks. A page is several of them, or a part of one; the
// predictor is asked once for a page, and for a part only when its chunk is missing.
//
// Rejected: a table of what followed what (a Markov chain). It learns from a second
// time, and the second time is the cache's.
type predictor struct {
	streams [maxStreams]stream
	clock   uint64 // counts pages, to know which stream is the oldest
	most    int64  // the largest window: more would push itself out of the cache
	cached  interface{ has(chunk int64) bool }

	demand int64 // chunks that were asked for
	vain   int64 // chunks that were read besides and not asked for (yet)

	count prefetchCounts
}

// prefetchCounts is what became of the chunks that were read ahead.
type prefetchCounts struct {
	pages  int64 // read besides those that were asked for
	used   int64 // of these, asked for later
	wasted int64 // given up: their stream has gone on, or ended
}

const (
	maxStreams = 8
	// maxWindow is how much one read fetches at most: 1 MiB. A network's round trip
	// costs about as much as the transfer of that.
	maxWindow = 256
	// nearby is how large a gap may be that a stream hasn't had before.
	nearby = 16
	// growth is by how much a window grows at once, and shrinks.
	growth = 4
	// provenBy is how many pages must have followed one another.
	provenBy = 16
	// credit is what may be read in vain before anything is known.
	credit = 16
	// idle is after how many pages a proven stream may be replaced like others.
	idle = 1024
)

// A stream is a run of reads in one direction.
type stream struct {
	live   bool
	dir    int8  // 1 forward, −1 backward, 0 not known yet: there was one read only
	at     int64 // the page last asked for
	gap    int64 // the largest step lately, in the direction
	lo, hi int64 // the window last read
	target int64 // the size that was wanted for it

	asked [maxWindow / 64]uint64 // of the window: chunks that were asked for
	extra int64                  // how many were read ahead
	used  int64                  // how many of these were asked for
	total int64                  // pages that have followed, in all windows
	seen  uint64                 // the clock when it was last asked
}

// proven says whether the stream is more than a coincidence.
func (s *stream) proven() bool { return s.total >= provenBy }

// hit records that chunks [i, i+n) were asked for and needed no read.
func (p *predictor) hit(i, n int64) {
	p.clock++
	if p.touch(i, n) {
		return
	}
	// Somebody else has read them, or written them. The stream goes on behind.
	s, usual := p.match(i, n)
	if s == nil || s.dir == 0 || !usual {
		return
	}
	p.retire(s)
	p.open(s, i, i+n, i, n)
}

// miss records that chunks [i, i+n) were asked for and must be read, and returns what
// to read for that: a window of whole pages around them, of a file with end chunks.
func (p *predictor) miss(i, n, end int64) (from, to int64) {
	p.clock++
	p.demand += n
	if s := p.within(i); s != nil {
		return p.extend(s, i, n, end, true)
	}
	s, usual := p.match(i, n)
	if usual {
		return p.extend(s, i, n, end, false)
	}
	next := stream{live: true}
	if s != nil {
		// Where the stream goes on after a gap, or something else: the next one says.
		next.dir, next.target, next.total, next.gap = s.dir, s.target, s.total, max(i-s.at, s.at-i)
	}
	s = p.oldest()
	p.retire(s)
	*s = next
	p.open(s, i, i+n, i, n)
	return i, i + n
}

// extend is miss for what s goes on with; again says that s has read it before.
func (p *predictor) extend(s *stream, i, n, end int64, again bool) (from, to int64) {
	if s.dir == 0 && i != s.at {
		s.dir = 1
		if i < s.at {
			s.dir = -1
		}
	}
	s.total++
	size := s.next(i, n, again)
	p.retire(s)
	if !s.proven() {
		size = min(size, n+max(0, p.demand/2+credit-p.vain))
	}
	most := int64(maxWindow)
	if p.most > 0 {
		most = min(most, p.most)
	}
	size = max(n, min(size, most)/n*n)
	s.target = size
	from, to = i, min(i+size, max(end, i+n))
	if s.dir < 0 {
		from, to = max(i+n-size, 0), i+n
	}
	if p.cached != nil { // what is at hand at the far end needn't be read
		for to > i+n && p.cached.has(to-1) {
			to--
		}
		for from < i && p.cached.has(from) {
			from++
		}
	}
	p.open(s, from, to, i, n)
	return from, to
}

// failed records that the window that miss returned for chunk i could not be read.
func (p *predictor) failed(i int64) {
	if s := p.within(i); s != nil {
		p.vain -= s.extra - s.used
		p.count.pages -= s.extra - s.used
		*s = stream{}
	}
}

// touch marks chunks as asked for in the windows that have them. It returns false if
// none has.
func (p *predictor) touch(i, n int64) (found bool) {
	for k := range p.streams {
		s := &p.streams[k]
		if !s.live || i >= s.hi || i+n <= s.lo {
			continue
		}
		found = true
		s.seen = p.clock
		if s.step(i) {
			s.total++
		} else if i != s.at {
			s.total-- // a sequence doesn't turn back
		}
		for c := max(i, s.lo); c < min(i+n, s.hi); c++ {
			if s.mark(c) {
				s.used++
				p.vain--
				p.demand++
				p.count.used++
			}
		}
	}
	return found
}

// step moves the stream on to the page at i, if that lies in its direction.
func (s *stream) step(i int64) bool {
	d := (i - s.at) * int64(s.dir)
	if d <= 0 {
		return false
	}
	s.gap, s.at = max(s.gap, min(d, maxWindow)), i
	return true
}

// mark says whether chunk c of the window is asked for the first time.
func (s *stream) mark(c int64) bool {
	bit := uint64(1) << (uint(c-s.lo) % 64)
	word := &s.asked[uint(c-s.lo)/64]
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// within returns the stream that has read chunk i already. That it is missing means
// that the cache couldn't keep it, or that nothing is stored there.
func (p *predictor) within(i int64) *stream {
	for k := range p.streams {
		if s := &p.streams[k]; s.live && i >= s.lo && i < s.hi {
			return s
		}
	}
	return nil
}

// match returns the nearest stream that a read of [i, i+n) may go on with, and whether
// the gap between them is one that it is used to.
func (p *predictor) match(i, n int64) (best *stream, usual bool) {
	nearest := int64(0)
	for k := range p.streams {
		s := &p.streams[k]
		if !s.live {
			continue
		}
		gap := i - s.hi // forward
		if i < s.lo {
			gap = s.lo - (i + n)
		}
		wrongWay := s.dir > 0 && i < s.lo || s.dir < 0 && i >= s.hi
		near := max(nearby, growth*n, 2*s.gap)
		reach := near
		if s.proven() {
			reach = max(reach, 2*s.target)
		}
		if gap < 0 || gap > reach || wrongWay || best != nil && gap >= nearest {
			continue
		}
		best, nearest, usual = s, gap, gap <= near
	}
	return best, usual
}

// next returns the size of the next window, for a page of n chunks at i; again says
// that something of the last one must be read once more. A window that was hardly used
// takes the stream's proof away.
func (s *stream) next(i, n int64, again bool) int64 {
	size := max(s.target, n)
	used, all := s.used+n, s.extra+n // with the page that was asked for
	switch {
	case again, 2*growth*used < all:
		s.total = 0
		return size / growth
	case s.extra == 0:
		return max(size, growth*n, growth*max(i-s.at, s.at-i))
	case growth*used >= all:
		return max(size*growth, growth*n)
	}
	return size
}

// open begins the window [lo, hi) of s, for chunks [i, i+n).
func (p *predictor) open(s *stream, lo, hi, i, n int64) {
	s.gap -= s.gap / 4 // what hasn't been for long is forgotten
	if s.hi > 0 {
		s.step(i)
	}
	s.lo, s.hi, s.at, s.seen = lo, hi, i, p.clock
	s.asked, s.extra, s.used = [maxWindow / 64]uint64{}, 0, 0
	for c := i; c < i+n; c++ {
		s.mark(c)
	}
	s.extra = hi - lo - n
	p.vain += s.extra
	p.count.pages += s.extra
}

// retire gives up what is left of the window of s. A proven stream has its debts
// forgiven: with every fourth page its own, it is still worth to read them all.
func (p *predictor) retire(s *stream) {
	left := s.extra - s.used
	p.count.wasted += left
	if s.proven() && growth*(s.used+1) >= s.extra {
		p.vain -= left
	}
	s.extra, s.used = 0, 0
}

// oldest returns the stream that a new one replaces.
func (p *predictor) oldest() *stream {
	best, rank := &p.streams[0], ^uint64(0)
	for k := range p.streams {
		s := &p.streams[k]
		if !s.live {
			return s
		}
		r := s.seen
		if s.proven() && p.clock-s.seen < idle {
			r += 1 << 62 // after all others
		}
		if r < rank {
			best, rank = s, r
		}
	}
	return best
}
