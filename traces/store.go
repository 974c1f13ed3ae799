package traces

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/drain"
	"github.com/greenroomdb/greenroom/metrics"
)

// maxOpen is how many chunks are filled at once. Two are enough for what is dated back
// across the beginning of a bucket not to cut the newest one each time.
const maxOpen = 2

// A store has the chunks of an actor: those that are being filled, those that wait to be written,
// and what is known of those that are stored. Its lock guards the recorder, too.
type store struct {
	*config
	guard

	wake    chan struct{} // holds a token when the writer has something to look at
	commits drain.Gate    // of commits that are under way; closed with the traces
	heal    func()        // records again what was dropped and must not be missing  +checklocks:mu

	// resolving is held while the store is asked for the ids that a bucket has. It is
	// taken before mu.
	resolving sync.Mutex

	closed  bool    // +checklocks:mu
	failed  error   // why nothing can be written any more  +checklocks:mu
	stats   Stats   // +checklocks:mu
	running running // the recorder's, which every chunk lists  +checklocks:mu

	// Chunks that are being filled.
	buckets map[int64]*bucket // that were used since Open  +checklocks:mu
	open    []*builder        // +checklocks:mu
	spare   map[string]uint32 // +checklocks:mu
	room    int               // bytes of records that a chunk will need  +checklocks:mu
	serial  uint64            // of the last builder  +checklocks:mu

	// Chunks that wait.
	seq          uint64     // of the last chunk that was cut  +checklocks:mu
	queue        []*pending // +checklocks:mu
	pendingBytes int        // +checklocks:mu
	unended      []ending   // ends that were dropped  +checklocks:mu
	flushes      []*flush   // +checklocks:mu

	// Chunks that are stored.
	tip             numbered // the chunk that was cut last of those that are stored  +checklocks:mu
	tipRefs         []ref    // what it lists  +checklocks:mu
	listed          numbered // one that is stored, whose list says of all spans before that run  +checklocks:mu
	written, synced uint64   // commits applied, and of these on stable storage  +checklocks:mu
	trimAt          uint64   // when to look for what is too old, Unix ns  +checklocks:mu
	index           index    // +checklocks:mu
}

// newStore returns the store of an actor of which nothing is known yet.
func newStore(c *config) *store {
	return &store{
		config: c, guard: guard{meter: metrics.Meter{To: c.opts.Metrics}}, wake: make(chan struct{}, 1),
		buckets: map[int64]*bucket{}, index: index{buckets: map[int64]bucketNotes{}},
	}
}

// load takes over what the notes say. tip is the chunk that was cut last, since that of its
// ledger, and chunks says that there is one that can be read.
func (st *store) load(c *catalog, tip chunkKey, since optional[numbered], chunks bool) {
	st.mu.Lock()
	defer st.unlock()
	st.trimAt = math.MaxUint64
	if chunks && len(c.ledgers) == 0 {
		st.trimAt = 0 // the index knows nothing of it
	}
	st.index.notes = c.notes
	for start, l := range c.ledgers {
		st.index.buckets[start] = bucketNotes{ledger: l, stored: true}
		st.index.bytes += l.bytes
		st.seq = max(st.seq, l.seq)
		if l.chunks == 0 {
			st.trimAt = 0 // it is left over
		}
		if st.opts.MaxAge > 0 {
			st.trimAt = min(st.trimAt, st.oldAt(start))
		}
	}
	if st.opts.MaxBytes > 0 && st.index.bytes > st.opts.MaxBytes && len(c.ledgers) > 1 {
		st.trimAt = 0
	}
	st.tip = numbered{tip, st.seq}
	if st.listed = st.tip; chunks && since.set {
		st.listed = since.value
	}
}

// counts returns what has happened since Open, and what there is.
func (st *store) counts() Stats {
	st.mu.Lock()
	defer st.unlock()
	s := st.stats
	s.Active, s.Pending, s.PendingBytes, s.Bytes = st.running.n, len(st.queue), st.pendingBytes, st.index.bytes
	return s
}

// close ends the recording, and cuts what was recorded since the last flush.
func (st *store) close() {
	st.mu.Lock()
	defer st.unlock()
	st.closed = true
	for len(st.open) > 0 {
		st.cut(st.open[0])
	}
}

// usable says why nothing is recorded any more.
//
// +checklocks:st.mu
func (st *store) usable() error {
	if st.closed {
		return ErrClosed
	}
	return st.failed
}

// bucketAt returns the bucket of a time in Unix ns.
//
// +checklocks:st.mu
func (st *store) bucketAt(at uint64) *bucket {
	start := st.bucketStart(at)
	k := st.buckets[start]
	if k == nil {
		k = &bucket{start: start}
		st.buckets[start] = k
	}
	return k
}

// bucketStart returns the Unix second at which the bucket of a time begins.
func (st *store) bucketStart(at uint64) int64 {
	s := int64(at / 1e9)
	return s - s%int64(st.opts.BucketSize/time.Second)
}

// builder returns the chunk of k that is being filled.
//
// +checklocks:st.mu
func (st *store) builder(k *bucket) *builder {
	for i, b := range st.open {
		if b.bucket == k {
			if i > 0 { // the last used one stands first
				st.open[0], st.open[i] = st.open[i], st.open[0]
			}
			return b
		}
	}
	// When a bucket begins, the one before ends: its last chunk is to list the spans that
	// run at that moment, which is where a reader of the new one looks for them.
	for i := len(st.open) - 1; i >= 0; i-- {
		if len(st.open) == maxOpen || st.open[i].bucket.start < k.start {
			st.cut(st.open[i])
		}
	}
	b := newBuilder(k, st.spare, st.room)
	st.spare = nil
	st.serial++
	b.serial = st.serial
	st.open = append([]*builder{b}, st.open...)
	st.kick() // the writer must know when it gets too old
	return b
}

// cut takes a chunk out of those that are being filled, to be written.
//
// +checklocks:st.mu
func (st *store) cut(b *builder) {
	for i, o := range st.open {
		if o == b {
			st.open = append(st.open[:i], st.open[i+1:]...)
			break
		}
	}
	st.seq++
	p := b.cut(st.running.refs(), st.running.bytes, st.seq)
	st.spare, st.room = b.ids, min(len(b.records)+len(b.records)/8, st.limit)
	b.ids = nil
	st.queue = append(st.queue, p)
	st.pendingBytes += p.size
	for len(st.queue) > st.opts.MaxPending || st.pendingBytes > st.opts.MaxPendingBytes {
		if !st.dropOldest() {
			break
		}
	}
	st.kick()
}

// dropOldest drops the oldest chunk that isn't being written.
//
// +checklocks:st.mu
func (st *store) dropOldest() bool {
	for i, p := range st.queue {
		if p.state == waiting {
			err := st.stats.LastWriteError
			st.later(func() {
				st.log.Warn("traces: chunk dropped", "actor_id", st.actor.ID(), "records", p.count, "err", err)
			})
			st.drop(i)
			return true
		}
	}
	return false
}

// drop gives up the i-th chunk of the queue. Spans that run, and of which it had the
// beginning, are to be recorded whole once more.
//
// +checklocks:st.mu
func (st *store) drop(i int) {
	p := st.queue[i]
	st.remove(i)
	st.stats.DroppedChunks++
	st.stats.DroppedRecords += int64(p.count)
	st.count(metricDroppedChunks, 1)
	st.settleFlushes(p.seq, ErrDropped)
	in := func(s seat) bool { return s.bucket == p.bucket && s.number == p.number }
	for s := st.running.oldest; s != nil; s = s.next {
		if in(s.start) || s.snapshot.set && in(s.snapshot.value) {
			s.lost, st.running.lost = true, true
		}
	}
	st.unended = append(st.unended, p.ends...)
	st.running.lost = st.running.lost || len(st.unended) > 0
	// The end of what doesn't begin is of no use.
	begins := func(e ending) bool { return in(e.span.base()) }
	st.unended = slices.DeleteFunc(st.unended, begins)
	for _, p := range st.queue {
		p.ends = slices.DeleteFunc(p.ends, begins)
	}
	for _, b := range st.open {
		b.ends = slices.DeleteFunc(b.ends, begins)
	}
}

// remove takes the i-th chunk out of the queue.
//
// +checklocks:st.mu
func (st *store) remove(i int) {
	p := st.queue[i]
	p.state = gone
	st.pendingBytes -= p.size
	st.queue = append(st.queue[:i], st.queue[i+1:]...)
}

// giveUp drops everything that waits to be written.
//
// +checklocks:st.mu
func (st *store) giveUp(why error) {
	for _, f := range st.flushes {
		st.later(func() { f.done <- why })
	}
	st.flushes = nil
	for len(st.queue) > 0 {
		st.drop(0)
	}
}

// live reports whether something of the bucket is still to be written.
//
// +checklocks:st.mu
func (st *store) live(start int64) bool {
	for _, b := range st.open {
		if b.bucket.start == start {
			return true
		}
	}
	for _, p := range st.queue {
		if p.bucket.start == start {
			return true
		}
	}
	return false
}

// resolve finds out what ids the chunks of a bucket have: those behind the newest one that
// is stored. Ids that began anew would overwrite what is there.
func (st *store) resolve(ctx context.Context, k *bucket) error {
	st.resolving.Lock()
	defer st.resolving.Unlock()
	st.mu.Lock()
	resolved, next := k.resolved, st.index.buckets[k.start].next
	st.unlock()
	if resolved {
		return nil
	}
	last, err := lastKey(ctx, st.actor, bucketStart(st.actor.Layout(), k.start), bucketStart(st.actor.Layout(), k.start+1))
	if err != nil {
		return err
	}
	if last.set {
		next = max(next, last.value.id+1)
	}
	st.mu.Lock()
	k.first, k.resolved = next, true
	st.unlock()
	return nil
}

// resolveAll resolves the bucket of a chunk, and those of all records that it names.
func (st *store) resolveAll(ctx context.Context, p *pending) error {
	unknown := map[*bucket]bool{p.bucket: true}
	st.mu.Lock()
	for _, r := range p.refs {
		if !r.start.bucket.resolved {
			unknown[r.start.bucket] = true
		}
		if r.snapshot.set && !r.snapshot.value.bucket.resolved {
			unknown[r.snapshot.value.bucket] = true
		}
	}
	st.unlock()
	for k := range unknown {
		if err := st.resolve(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// oldAt returns when, in Unix ns, all that a bucket may have is older than Options.MaxAge.
// Nothing says how long the buckets of other writers are, or were here with other options:
// they are taken to be of the usual length at least.
func (st *store) oldAt(start int64) uint64 {
	return uint64(start)*1e9 + uint64(max(st.opts.BucketSize, defaultBucketSize)) + uint64(st.opts.MaxAge)
}

// unwritten returns the chunks that are not known to be stored: those that wait, and what
// the next ones have so far.
func (st *store) unwritten(ctx context.Context) (memory []keyed, err error) {
	st.mu.Lock()
	if st.closed {
		st.unlock()
		return nil, ErrClosed
	}
	all := slices.Clone(st.queue)
	for _, b := range st.open {
		// What is there so far doesn't change: more is put behind it.
		p := b.cut(st.running.refs(), st.running.bytes, 0)
		p.strings, p.records = slices.Clip(p.strings), slices.Clip(p.records)
		all = append(all, p)
	}
	st.unlock()
	for _, p := range all {
		if err := st.resolveAll(ctx, p); err != nil {
			return nil, err
		}
		c, err := parseChunk(p.encode())
		if err != nil {
			return nil, err
		}
		memory = append(memory, keyed{p.key(), c})
	}
	return memory, nil
}

// kick tells the writer to look what there is to do.
func (st *store) kick() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// unclaim gives a chunk back that was to be written.
//
// +checklocks:st.mu
func (st *store) unclaim(p *pending) {
	if p.state != gone {
		p.state = waiting
	}
}

// since says from what chunk on the next opening of the actor must look for spans that
// were left open, when p has landed: unset if the list of the newest chunk says it. A span
// that has ended is in no list, and the host may die before its end is stored; and of one
// that is listed, all that the list knows of its beginning may not be.
//
// +checklocks:st.mu
func (st *store) since(p *pending) optional[numbered] {
	newest, refs := st.tip.seq, st.tipRefs
	if p.seq > newest {
		newest, refs = p.seq, p.refs
	}
	missing := func(e ending) bool { return e.span.ended <= newest }
	lost := slices.ContainsFunc(st.unended, missing)
	away := map[seat]bool{} // chunks that are not stored
	for _, q := range st.queue {
		if q != p {
			lost = lost || slices.ContainsFunc(q.ends, missing)
			away[seat{q.bucket, q.number, 0}] = true
		}
	}
	for _, b := range st.open {
		lost = lost || slices.ContainsFunc(b.ends, missing)
		away[seat{b.bucket, b.number, 0}] = true
	}
	if lost || slices.ContainsFunc(refs, func(r ref) bool { return r.away(away) }) {
		return some(st.listed)
	}
	return optional[numbered]{}
}

// landed takes a chunk out of the queue that has been applied.
//
// +checklocks:st.mu
func (st *store) landed(p *pending) {
	st.stats.Chunks++
	st.stats.Records += int64(p.count)
	st.count(metricChunks, 1)
	since := st.since(p)
	if p.seq > st.tip.seq {
		st.tip, st.tipRefs = numbered{p.key(), p.seq}, p.refs
	}
	if !since.set {
		st.listed = st.tip
	}
	if st.opts.MaxBytes > 0 && st.index.bytes > st.opts.MaxBytes && st.index.several() || st.index.notes > maxIndexNotes {
		st.trimAt = 0
		st.kick()
	}
	if st.opts.MaxAge > 0 {
		st.trimAt = min(st.trimAt, st.oldAt(p.bucket.start))
	}
	if i := slices.Index(st.queue, p); i >= 0 {
		st.remove(i)
	}
	st.settleFlushes(0, nil)
}
