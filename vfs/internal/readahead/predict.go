package readahead

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
// scattered reads may look like a stream by chance, a stream is on credit until it is
// proven: what was read ahead in vain may not exceed half of what was asked for.
// So a scattered pattern costs one read per page, and less than twice the bytes.
//
// A scan of a b-tree leaps: from a leaf to an inner page, some hundred pages on, and back
// to the next leaf. So a leap counts for nothing until the next page confirms it; and if
// the page that it leads to is missing, what lies between is fetched with it.
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
	// nearby is how far a stream may go at once without its being a leap.
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
	leap   int64 // where it may have leapt to from there, −1 if it hasn't
	gap    int64 // the largest step lately, in the direction
	target int64 // the size that was wanted for the last window

	// What was read ahead and not given up: chunks [lo, hi).
	lo, hi int64
	asked  [2 * maxWindow / 64]uint64 // of these, those that were asked for
	extra  int64                      // how many of the last window were read ahead
	used   int64                      // how many of these were asked for

	total int64  // pages that have followed one another
	seen  uint64 // the clock when it was last asked
}

// proven says whether the stream is more than a coincidence.
func (s *stream) proven() bool { return s.total >= provenBy }

// hit records that chunks [i, i+n) were asked for and needed no read.
func (p *predictor) hit(i, n int64) {
	p.clock++
	if p.touch(i, n) {
		return
	}
	// They came with another connection's read or write: the stream goes on behind. If it is
	// a leap it does so from where it was.
	for k := range p.streams {
		s := &p.streams[k]
		if s.live && (s.dir > 0 && i == s.hi || s.dir < 0 && i+n == s.lo) {
			s.seen = p.clock
			s.step(i)
			p.move(s, i, i+n, i, n)
			return
		}
	}
}

// miss records that chunks [i, i+n) were asked for and must be read, and returns what
// to read for that: a window of whole pages around them, of a file with end chunks.
func (p *predictor) miss(i, n, end int64) (from, to int64) {
	p.clock++
	p.demand += n
	if s := p.within(i); s != nil {
		return p.extend(s, i, n, end, lost)
	}
	s, how := p.match(i, n)
	if s != nil && how != tooFar {
		return p.extend(s, i, n, end, how)
	}
	next := stream{live: true, at: i, leap: -1, lo: i, hi: i}
	if s != nil {
		// Where the stream goes on after a gap, or something else: the next page says.
		next.dir, next.target, next.total, next.gap = s.dir, s.target, s.total, distance(i, s.at)
	}
	s = p.oldest()
	p.retire(s)
	*s = next
	s.seen = p.clock
	p.move(s, i, i+n, i, n)
	return i, i + n
}

// How a missing page belongs to a stream.
type relation uint8

const (
	follows relation = iota // it is the next one
	leapt                   // it may be, but there is much between
	tooFar                  // there is too much between
	lost                    // the stream has read it already, and it is gone
)

// extend is miss for a page of s.
func (p *predictor) extend(s *stream, i, n, end int64, how relation) (from, to int64) {
	if s.dir == 0 && i != s.at {
		s.dir = 1
		if i < s.at {
			s.dir = -1
		}
	}
	size := s.next(i, n, how)
	if s.seen = p.clock; how == follows {
		s.total++
		s.follow(i)
	} else {
		s.step(i)
	}
	if !s.proven() {
		size = min(size, n+max(0, p.demand/2+credit-p.vain))
	}
	most := int64(maxWindow)
	if p.most > 0 {
		most = min(most, max(p.most, n))
	}
	size = max(n, min(size, most)/n*n)
	s.target = size
	switch {
	case how == leapt && s.dir > 0:
		from, to = s.hi, max(s.hi+size, i+n)
	case how == leapt:
		from, to = min(s.lo-size, i), s.lo
	case s.dir < 0:
		from, to = i+n-size, i+n
	default:
		from, to = i, i+size
	}
	from, to = max(from, 0), min(to, max(end, i+n))
	if p.cached != nil { // what is at hand at the ends needn't be read
		for to > i+n && p.cached.has(to-1) {
			to--
		}
		for from < i && p.cached.has(from) {
			from++
		}
	}
	p.move(s, from, to, i, n)
	return from, to
}

// next returns the size of the next window, for a page of n chunks at i. A window that
// was hardly used takes the stream's proof away.
func (s *stream) next(i, n int64, how relation) int64 {
	size := max(s.target, n)
	used, all := s.used+n, s.extra+n // with the page that was asked for
	if how == leapt {
		all -= s.ahead() // it is not over with the last one
	}
	switch {
	case how == lost, 2*growth*used < all:
		s.total = 0
		return size / growth
	case s.extra == 0:
		return max(size, growth*n, growth*distance(i, s.at))
	case growth*used >= all:
		return max(size*growth, growth*n)
	}
	return size
}

// ahead is how much of what was read the stream hasn't come to yet.
func (s *stream) ahead() (n int64) {
	from, to := s.at, s.hi
	if s.dir < 0 {
		from, to = s.lo, s.at
	}
	for c := max(from, s.lo); c < min(to, s.hi); c++ {
		if !s.isAsked(c) {
			n++
		}
	}
	return n
}

// failed records that the window that miss returned for chunk i could not be read.
func (p *predictor) failed(i int64) {
	if s := p.within(i); s != nil {
		open := s.open()
		p.vain -= open
		p.count.pages -= open
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
		s.step(i)
		for c := max(i, s.lo); c < min(i+n, s.hi); c++ {
			if s.isAsked(c) {
				continue
			}
			s.ask(c)
			s.used++
			p.vain--
			p.demand++
			p.count.used++
		}
	}
	return found
}

// step moves the stream to the page at i, which it has already, or leaps to.
func (s *stream) step(i int64) {
	d := (i - s.at) * int64(s.dir)
	switch {
	case d == 0:
	case d < 0:
		s.total-- // a sequence doesn't turn back
		s.leap = -1
	case d <= max(nearby, s.gap):
		s.total++
		s.follow(i)
	case s.leap >= 0 && (i-s.leap)*int64(s.dir) > 0 && distance(i, s.leap) <= nearby:
		s.total++
		s.follow(s.leap)
		s.follow(i)
	default:
		s.leap = i
	}
}

// follow moves the stream on to the page at i.
func (s *stream) follow(i int64) {
	s.gap, s.at, s.leap = max(s.gap, min(distance(i, s.at), maxWindow)), i, -1
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

func (s *stream) isAsked(c int64) bool {
	return s.asked[uint(c-s.lo)/64]>>(uint(c-s.lo)%64)&1 != 0
}

func (s *stream) ask(c int64) { s.asked[uint(c-s.lo)/64] |= 1 << (uint(c-s.lo) % 64) }

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

// match returns the nearest stream that a read of [i, i+n) may go on with, and how.
func (p *predictor) match(i, n int64) (best *stream, how relation) {
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
		best, nearest = s, gap
		switch {
		case gap <= near && (!s.proven() || s.ahead() == 0):
			how = follows
		case s.proven() && gap+n <= s.target:
			how = leapt
		case gap <= near:
			how = follows
		default:
			how = tooFar
		}
	}
	return best, how
}

// move makes [from, to) the window of s, for chunks [i, i+n). If it goes on where the
// last one ends, what the stream hasn't come to yet there stays in it.
func (p *predictor) move(s *stream, from, to, i, n int64) {
	s.gap -= s.gap / 4 // what hasn't been for long is forgotten
	lo, hi := from, to
	if s.dir > 0 && from == s.hi {
		lo = max(s.lo, min(s.at, s.hi), to-2*maxWindow)
	} else if s.dir < 0 && to == s.lo {
		hi = min(s.hi, max(s.at+1, s.lo), from+2*maxWindow)
	}
	old := *s
	s.lo, s.hi, s.asked = lo, hi, [len(s.asked)]uint64{}
	kept := int64(0)
	for c := max(lo, old.lo); c < min(hi, old.hi); c++ {
		if old.isAsked(c) {
			s.ask(c)
		} else {
			kept++
		}
	}
	p.giveUp(&old, old.open()-kept)
	for c := i; c < i+n; c++ {
		s.ask(c)
	}
	s.extra, s.used = to-from-n+kept, 0
	p.vain += to - from - n
	p.count.pages += to - from - n
}

// open is how many chunks were read ahead and are not given up, nor asked for.
func (s *stream) open() int64 { return s.extra - s.used }

// retire gives up what is left of the window of s.
func (p *predictor) retire(s *stream) {
	p.giveUp(s, s.open())
	s.extra, s.used = 0, 0
}

// giveUp records that n chunks of s will not be asked for. A proven stream has its
// debts forgiven: with every fourth page its own, it is still worth to read them all.
func (p *predictor) giveUp(s *stream, n int64) {
	p.count.wasted += n
	if s.proven() && growth*(s.used+1) >= s.extra {
		p.vain -= n
	}
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
