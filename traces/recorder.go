package traces

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxOpen is how many chunks are filled at once. Two are enough for what is dated back
// across the beginning of a bucket not to cut the newest one each time.
const maxOpen = 2

// bucketAt returns the bucket of a time in Unix ns.
//
// +checklocks:t.mu
func (t *Traces) bucketAt(at uint64) *bucket {
	start := t.bucketStart(at)
	k := t.buckets[start]
	if k == nil {
		k = &bucket{start: start}
		t.buckets[start] = k
	}
	return k
}

// bucketStart returns the Unix second at which the bucket of a time begins.
func (t *Traces) bucketStart(at uint64) int64 {
	s := int64(at / 1e9)
	return s - s%int64(t.opts.BucketSize/time.Second)
}

// builder returns the chunk of k that is being filled.
//
// +checklocks:t.mu
func (t *Traces) builder(k *bucket) *builder {
	for i, b := range t.open {
		if b.bucket == k {
			if i > 0 { // the last used one stands first
				t.open[0], t.open[i] = t.open[i], t.open[0]
			}
			return b
		}
	}
	// When a bucket begins, the one before ends: its last chunk is to list the spans that
	// run at that moment, which is where a reader of the new one looks for them.
	for i := len(t.open) - 1; i >= 0; i-- {
		if len(t.open) == maxOpen || t.open[i].bucket.start < k.start {
			t.cut(t.open[i])
		}
	}
	b := newBuilder(k, t.spare, t.room)
	t.spare = nil
	t.serial++
	b.serial = t.serial
	t.open = append([]*builder{b}, t.open...)
	t.kick() // the writer must know when it gets too old
	return b
}

// An addition is what putting a record adds to the list of spans that run.
type addition struct{ refs, bytes int }

// put puts the draft into the chunk of its time, of which it decides before what it will
// be: with the strings that are new in it, and with the list of the spans that run. So no
// chunk is ever too large. s is the span, nil for a record of none.
//
// +checklocks:t.mu
func (t *Traces) put(at uint64, s *Span, more addition) (seat, bool) {
	// What is dated ahead is in the bucket of today: those to come are not there yet.
	if at > t.latest {
		t.latest = max(t.latest, t.now())
	}
	k := t.bucketAt(min(at, t.latest))
	refs, refBytes := t.active+more.refs, t.refBytes+more.bytes
	b := t.builder(k)
	// A chunk that is cut takes its strings along, so the record is put together anew.
	for !t.try(b, at, s, refs, refBytes) {
		if b.count == 0 {
			t.stats.DroppedRecords++ // no bounds allow this
			return seat{}, false
		}
		t.cut(b)
		b = t.builder(k)
	}
	b.saw(at, t.hashIn(b, s))
	// The others must list what is added, too.
	for i := len(t.open) - 1; i > 0; i-- {
		if o := t.open[i]; o.size(refs, refBytes) > t.limit {
			t.cut(o)
		}
	}
	return seat{k, b.number, uint32(b.count - 1)}, true
}

// try appends the draft to b, if it fits.
//
// +checklocks:t.mu
func (t *Traces) try(b *builder, at uint64, s *Span, refs, refBytes int) bool {
	m, n, count, resource := b.mark(), len(b.records), b.count, b.resource
	limit := t.target
	if count == 0 {
		limit = t.limit // the target may be less than the list of running spans alone
	}
	d := &t.draft
	if s != nil && s.resource != resource && (d.rec.kind == kindStart || d.rec.kind == kindSnapshot) {
		t.stateResource(b, at, s.resource)
	}
	d.finish(b)
	d.rec.offset = at - b.base
	b.records = d.rec.append(b.records)
	b.count++
	if b.size(refs, refBytes) <= limit {
		return true
	}
	b.records, b.count, b.resource = b.records[:n], count, resource
	b.undo(m)
	return false
}

// stateResource says in b what records from here on. The format has no place for it: it is
// an update of the span that no span is, which other readers ignore.
//
// +checklocks:t.mu
func (t *Traces) stateResource(b *builder, at uint64, r *Resource) {
	d := &t.resDraft
	if t.resOf != r || len(d.ends) == 0 && r != nil {
		d.begin(kindUpdate, &t.bounds)
		t.resOf = r
		if r != nil {
			d.rec.dropped = t.addAttrs(d, r.Attributes)
			if r.SchemaURL != "" {
				d.rec.dropped += t.addAttrs(d, []Attr{String(keySchema, r.SchemaURL)})
			}
		}
	}
	d.finish(b)
	d.rec.offset = at - b.base
	b.records = d.rec.append(b.records)
	b.count++
	b.resource = r
}

// hashIn returns the hash of the span's trace if b hasn't got it from this span, else 0.
func (t *Traces) hashIn(b *builder, s *Span) uint64 {
	if s == nil || s.seen == b.serial {
		return 0
	}
	s.seen = b.serial
	return s.hash
}

// cut takes a chunk out of those that are being filled, to be written.
//
// +checklocks:t.mu
func (t *Traces) cut(b *builder) {
	for i, o := range t.open {
		if o == b {
			t.open = append(t.open[:i], t.open[i+1:]...)
			break
		}
	}
	t.seq++
	p := b.cut(t.refs(), t.refBytes, t.seq)
	t.spare, t.room = b.ids, min(len(b.records)+len(b.records)/8, t.limit)
	b.ids = nil
	t.queue = append(t.queue, p)
	t.pendingBytes += p.size
	for len(t.queue) > t.opts.MaxPending || t.pendingBytes > t.opts.MaxPendingBytes {
		if !t.dropOldest() {
			break
		}
	}
	t.kick()
}

// refs lists the spans that run.
//
// +checklocks:t.mu
func (t *Traces) refs() []ref {
	refs := make([]ref, 0, t.active)
	for s := t.oldest; s != nil; s = s.next {
		refs = append(refs, ref{s.id, s.start, s.snapshot})
	}
	return refs
}

// dropOldest drops the oldest chunk that isn't being written.
//
// +checklocks:t.mu
func (t *Traces) dropOldest() bool {
	for i, p := range t.queue {
		if p.state == waiting {
			err := t.stats.LastWriteError
			t.later(func() { t.log.Warn("traces: chunk dropped", "actor", t.actor.ID(), "records", p.count, "err", err) })
			t.drop(i)
			return true
		}
	}
	return false
}

// drop gives up the i-th chunk of the queue. Spans that run, and of which it had the
// beginning, are to be recorded whole once more.
//
// +checklocks:t.mu
func (t *Traces) drop(i int) {
	p := t.queue[i]
	t.remove(i)
	t.stats.DroppedChunks++
	t.stats.DroppedRecords += int64(p.count)
	t.count(metricDroppedChunks, 1)
	t.settleFlushes(p.seq, ErrDropped)
	in := func(s seat) bool { return s.bucket == p.bucket && s.number == p.number }
	for s := t.oldest; s != nil; s = s.next {
		if in(s.start) || s.snapshot.set && in(s.snapshot.value) {
			s.lost, t.lost = true, true
		}
	}
	t.unended = append(t.unended, p.ends...)
	t.lost = t.lost || len(t.unended) > 0
	// The end of what doesn't begin is of no use.
	begins := func(e ending) bool { return in(e.span.base()) }
	t.unended = slices.DeleteFunc(t.unended, begins)
	for _, p := range t.queue {
		p.ends = slices.DeleteFunc(p.ends, begins)
	}
	for _, b := range t.open {
		b.ends = slices.DeleteFunc(b.ends, begins)
	}
}

// base returns where the newest record is that says what the span is.
func (s *Span) base() seat {
	if s.snapshot.set {
		return s.snapshot.value
	}
	return s.start
}

// remove takes the i-th chunk out of the queue.
//
// +checklocks:t.mu
func (t *Traces) remove(i int) {
	p := t.queue[i]
	p.state = gone
	t.pendingBytes -= p.size
	t.queue = append(t.queue[:i], t.queue[i+1:]...)
}

// heal records the spans whose beginning was dropped, and ends that were.
//
// +checklocks:t.mu
func (t *Traces) heal() {
	if !t.lost {
		return
	}
	t.lost = false
	at := t.now()
	for s := t.oldest; s != nil; s = s.next {
		if s.lost {
			s.lost = false
			t.restate(s, at)
		}
	}
	unended := t.unended
	t.unended = nil
	for _, e := range unended {
		var status *Status
		if e.span.status.set {
			status = &e.span.status.value
		}
		t.putEnd(e.span, e.at, status)
	}
}

// newTraceID and newSpanID return random ids.
func newTraceID() (id TraceID) {
	for id.IsZero() {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id SpanID) {
	for id.IsZero() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// hashTrace returns a number that traces have in common rarely, and that is never 0.
// It is a part of the format of the index.
func hashTrace(id TraceID) uint64 {
	h := mix(binary.BigEndian.Uint64(id[:8])) + binary.BigEndian.Uint64(id[8:])
	return max(mix(h), 1)
}

// mix is the finalizer of SplitMix64 (https://prng.di.unimi.it/splitmix64.c).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// unixNano is t in Unix nanoseconds, as they can be stored.
func unixNano(t time.Time) uint64 {
	if t.Unix() < 0 {
		return 0
	}
	if t.Unix() >= math.MaxInt64/int64(1e9) {
		return math.MaxInt64
	}
	return uint64(t.UnixNano())
}

// timeOf returns the time, in UTC: nothing says where it was recorded.
func timeOf(ns uint64) time.Time { return time.Unix(0, int64(ns)).UTC() }
