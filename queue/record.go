package queue

import (
	"cmp"
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// Versions of what is stored. Messages and metadata have no earlier one. A message is stored in
// the first version that has all that is to be said of it.
const (
	recordVersion = 4
	failedVersion = 5 // of a message: an attempt has failed
	rankedVersion = 6 // of a message: it has a priority, or may be replaced
	noteVersion   = 1
)

// leaseRoom is what the optional fields of a record add to it, in bytes.
const leaseRoom = 4 + 8 + 1 + 8

// metadataSize is the length of the metadata in bytes.
const metadataSize = bare.VersionSize + 8 + 4

// An optional is a field that may be absent.
type optional[T any] struct {
	value T
	set   bool
}

func some[T any](v T) optional[T] { return optional[T]{v, true} }

// A record is a message as it is stored. Times are Unix milliseconds.
type record struct {
	name       string
	body       []byte
	created    int64
	deliveries optional[uint32] // how often it was handed out
	available  optional[int64]  // not before; in flight: the end of the lease
	inFlight   optional[bool]
	since      optional[int64] // in flight since
	past       past            // stored if an attempt has failed
	priority   int8
	debounce   debounceKey // zero if the message isn't to be replaced
}

// version returns the first version that has all that the record says.
func (r *record) version() uint16 {
	switch {
	case r.priority != 0 || r.debounce != (debounceKey{}):
		return rankedVersion
	case r.past.failed():
		return failedVersion
	}
	return recordVersion
}

// size returns the length of the encoded record in bytes.
func (r *record) size() int {
	n := bare.VersionSize + uvarintSize(len(r.name)) + len(r.name) + uvarintSize(len(r.body)) + len(r.body) + 8 + 4
	if r.deliveries.set {
		n += 4
	}
	if r.available.set {
		n += 8
	}
	if r.inFlight.set {
		n++
	}
	if r.since.set {
		n += 8
	}
	if r.past.failed() {
		n += r.past.size()
	}
	if r.version() == rankedVersion {
		n += 3
	}
	if r.debounce != (debounceKey{}) {
		n += len(r.debounce)
	}
	return n
}

func uvarintSize(v int) (n int) {
	for n = 1; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// encode returns the record in bytes of its own.
func (r *record) encode() []byte { return r.append(make([]byte, 0, r.size())) }

func (r *record) append(dst []byte) []byte {
	version := r.version()
	dst = bare.AppendVersion(dst, version)
	if version == rankedVersion {
		dst = bare.AppendBool(bare.AppendU8(dst, uint8(r.priority)), r.past.failed())
		if r.past.failed() {
			dst = r.past.append(dst)
		}
		waits := r.debounce != (debounceKey{})
		if dst = bare.AppendBool(dst, waits); waits {
			dst = bare.AppendFixed(dst, r.debounce[:])
		}
	}
	dst = bare.AppendString(dst, r.name)
	dst = bare.AppendData(dst, r.body)
	dst = bare.AppendI64(dst, r.created)
	if dst = bare.AppendBool(dst, r.deliveries.set); r.deliveries.set {
		dst = bare.AppendU32(dst, r.deliveries.value)
	}
	if dst = bare.AppendBool(dst, r.available.set); r.available.set {
		dst = bare.AppendI64(dst, r.available.value)
	}
	if dst = bare.AppendBool(dst, r.inFlight.set); r.inFlight.set {
		dst = bare.AppendBool(dst, r.inFlight.value)
	}
	if dst = bare.AppendBool(dst, r.since.set); r.since.set {
		dst = bare.AppendI64(dst, r.since.value)
	}
	if version == failedVersion {
		dst = r.past.append(dst)
	}
	return dst
}

// parseRecord decodes a record. Its body is a part of b.
func parseRecord(b []byte) (m record, err error) {
	v, r, err := open(b, recordVersion, rankedVersion)
	if err != nil {
		return record{}, err
	}
	if v == rankedVersion {
		m.priority = int8(r.U8())
		if r.Bool() {
			m.past = parsePast(r)
		}
		if r.Bool() {
			copy(m.debounce[:], r.Fixed(len(m.debounce)))
		}
		if m.priority < MinPriority || m.priority > MaxPriority {
			r.Fail("the priority is %d", m.priority)
		}
	}
	m.name, m.body, m.created = r.String(), r.Data(), r.I64()
	if r.Bool() {
		m.deliveries = some(r.U32())
	}
	if r.Bool() {
		m.available = some(r.I64())
	}
	if r.Bool() {
		m.inFlight = some(r.Bool())
	}
	if r.Bool() {
		m.since = some(r.I64())
	}
	if v == failedVersion {
		m.past = parsePast(r)
	}
	switch waits := m.debounce != (debounceKey{}); {
	case v == rankedVersion && m.version() != v:
		r.Fail("version %d without a priority or a key", v)
	case waits && (m.deliveries.set || m.inFlight.set || m.since.set):
		r.Fail("it was handed out, and may be replaced")
	}
	if err := r.Done(); err != nil {
		return record{}, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	}
	return m, nil
}

// open returns a version from first to known, and a reader of what stands behind it.
func open(b []byte, first, known uint16) (v uint16, r *bare.Reader, err error) {
	v, body, err := bare.Version(b)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	case v > known:
		return 0, nil, fmt.Errorf("version %d, known is %d: %w", v, known, actorstore.ErrNewerFormat)
	case v < first:
		return 0, nil, fmt.Errorf("version %d, the first is %d: %w", v, first, actorstore.ErrCorrupt)
	}
	return v, bare.NewReader(body), nil
}

// lease returns what the record says about when it is visible. A lease without an end of
// its own takes visibility, in milliseconds: other writers leave that open.
func (r *record) lease(visibility int64) lease {
	l := lease{deliveries: r.deliveries.value}
	if r.inFlight.value {
		l.since = r.since.value
	}
	switch {
	case r.inFlight.value && r.available.set:
		l.state, l.at = leased, r.available.value
	case r.inFlight.value && r.since.value > math.MaxInt64-visibility:
		l.state, l.at = leased, math.MaxInt64
	case r.inFlight.value:
		l.state, l.at = leased, r.since.value+visibility
	case r.available.set:
		l.state, l.at = delayed, r.available.value
	}
	return l
}

// setLease makes the record say l, which began at now if it doesn't say when.
func (r *record) setLease(l lease, now int64) {
	r.deliveries, r.available, r.inFlight, r.since = optional[uint32]{}, optional[int64]{}, optional[bool]{}, optional[int64]{}
	if l.deliveries > 0 {
		r.deliveries, r.debounce = some(l.deliveries), debounceKey{}
	}
	switch l.state {
	case leased:
		r.available, r.inFlight, r.since = some(l.at), some(true), some(cmp.Or(l.since, now))
	case delayed:
		r.available = some(l.at)
		fallthrough
	default:
		if l.deliveries > 0 { // it was in flight, and isn't
			r.inFlight = some(false)
		}
	}
}

// metadata is what is stored about all messages together.
type metadata struct {
	next ID    // above all ids that were ever given
	size int64 // message keys, also of those that can't be read
}

// taken says that an id was given.
func (m *metadata) taken(id ID) {
	if id <= lastID {
		m.next = max(m.next, id+1)
	}
}

func (m *metadata) append(dst []byte) []byte {
	b := bare.AppendVersion(dst, recordVersion)
	return bare.AppendU32(bare.AppendU64(b, uint64(m.next)), uint32(min(m.size, math.MaxUint32)))
}

func parseMetadata(b []byte) (m metadata, err error) {
	_, r, err := open(b, recordVersion, recordVersion)
	if err != nil {
		return metadata{}, err
	}
	m.next, m.size = ID(r.U64()), int64(r.U32())
	if err := r.Done(); err != nil {
		return metadata{}, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	}
	return m, nil
}

// appendNote appends the value of a note about a sender's key.
func appendNote(dst []byte, id ID, until int64) []byte {
	return bare.AppendI64(bare.AppendU64(bare.AppendVersion(dst, noteVersion), uint64(id)), until)
}

func parseNote(b []byte) (id ID, until int64, err error) {
	_, r, err := open(b, noteVersion, noteVersion)
	if err != nil {
		return 0, 0, err
	}
	id, until = ID(r.U64()), r.I64()
	if err := r.Done(); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	}
	return id, until, nil
}

// fit leaves out what a record may not say, and what it says of attempts that failed if that
// would not let the message become a dead letter.
func (r *record) fit(tells bool, most int) {
	if !tells {
		r.priority, r.debounce = 0, debounceKey{}
	}
	if r.past.failed() && (!tells || r.size() > most) {
		r.past = past{}
	}
}

// tellsFailures says whether a stored record tells of attempts that failed.
func tellsFailures(rec []byte) bool {
	switch {
	case len(rec) < bare.VersionSize+2:
		return false
	case rec[0] == rankedVersion:
		return rec[bare.VersionSize+1] != 0
	}
	return rec[0] == failedVersion
}
