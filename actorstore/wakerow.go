package actorstore

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Wake says when an actor must be woken.
type Wake struct {
	// At is the time, in whole milliseconds; the zero time for never.
	At time.Time
	// Tried are the versions of the actor's code that found something to do and could
	// not do it, the newest last, at most MaxTried. For them At holds. Any other version
	// is to look at once. The next commit with something to do at once forgets them.
	Tried []uint64
}

// MaxTried is how many versions a Wake holds.
const MaxTried = 4

// Due returns when a process whose code is of that version must wake the actor: At, or the time at which the
// Unix epoch began if others tried and this version didn't; the zero time for never.
func (w *Wake) Due(version uint64) time.Time {
	if len(w.Tried) > 0 && !slices.Contains(w.Tried, version) {
		return time.UnixMilli(0)
	}
	return w.At
}

// A Waking is one row of the index: an actor, and when it must be woken.
type Waking struct {
	ID     ID
	Name   string // "" when the actor has none
	Layout Layout // of the actor's keys
	Wake
	host HostID // that had the actor open when the row was written, and has not put it right since; zero for none
}

// A wakeRow is the row beside the head that says when the actor must be woken. It doesn't
// change once it is made. nil stands for a missing row.
type wakeRow struct {
	look  int64 // where the actor stands in the index, Unix ms: at, or since when tried holds
	at    int64 // Unix ms; neverAt if only another version is to look
	tried []uint64
	held  bool // the index says that this process has the actor open
}

// neverAt is the time of a row without one, with versions that tried.
const neverAt = math.MaxInt64

// rowOf returns the row that says w at a time, nil for none.
func rowOf(w *Wake, now int64) *wakeRow {
	r := &wakeRow{at: neverAt, tried: slices.Clone(w.Tried)}
	if !w.At.IsZero() {
		r.at = w.At.UnixMilli()
	}
	switch {
	case len(r.tried) > 0:
		r.look = now
	case r.at == neverAt:
		return nil
	default:
		r.look = r.at
	}
	return r
}

func (r *wakeRow) wake() (w Wake) {
	if r == nil {
		return Wake{}
	}
	if w.Tried = r.tried; r.at != neverAt {
		w.At = time.UnixMilli(r.at)
	}
	return w
}

// says reports whether the row says w.
func (r *wakeRow) says(w *Wake) bool {
	o := rowOf(w, 0)
	if r == nil || o == nil {
		return r == nil && o == nil
	}
	return r.at == o.at && slices.Equal(r.tried, o.tried)
}

// by returns the row of an actor that has something new to do at a time. One that is due stays due, and what
// versions tried in vain stays so until there is something else to do at once.
func (r *wakeRow) by(at, now int64) *wakeRow {
	switch {
	case r == nil:
	case len(r.tried) == 0 && r.at <= max(at, now), len(r.tried) > 0 && at > now && r.at <= at:
		return r
	case len(r.tried) > 0 && at > now:
		return &wakeRow{look: r.look, at: at, tried: r.tried}
	default:
		at = min(at, r.at)
	}
	return &wakeRow{look: at, at: at}
}

func (r *wakeRow) append(dst []byte) []byte {
	dst = bare.AppendI64(bare.AppendVersion(dst, wakeVersion), r.look)
	return appendTried(bare.AppendI64(dst, r.at), r.tried)
}

func appendTried(dst []byte, tried []uint64) []byte {
	dst = bare.AppendUint(dst, uint64(len(tried)))
	for _, v := range tried {
		dst = bare.AppendU64(dst, v)
	}
	return dst
}

func readTried(r *bare.Reader) (tried []uint64) {
	for range r.Len(MaxTried) {
		tried = append(tried, r.U64())
	}
	return tried
}

// parseWake decodes the row beside a head.
func parseWake(id ID, row []byte) (*wakeRow, error) {
	r, err := open(row, wakeVersion, "time to wake actor "+id.String())
	if err != nil {
		return nil, err
	}
	w := &wakeRow{look: r.I64(), at: r.I64(), tried: readTried(r)}
	if len(w.tried) == 0 && w.look != w.at {
		r.Fail("two times, %d and %d", w.look, w.at)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("actorstore: time to wake actor %s: %w: %w", id, err, ErrCorrupt)
	}
	return w, nil
}

// A lookRow is the subspace of the index's rows of one time, a wakeKey the key of one.
type lookRow struct{ Look int64 }

func (s *lookRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, rowWake)
	e.Int64(&s.Look)
}

// A wakeKey is the key of a row of the index.
type wakeKey struct {
	lookRow
	ID ID
}

func (k *wakeKey) Elements(e *keys.Elements) {
	k.lookRow.Elements(e)
	e.ID((*tuple.UUID)(&k.ID.UUID), &k.ID.Label)
}

func (wakeKey) Value() keys.Codec[[]byte] { return keys.Bytes() }

func (r *wakeRow) indexKey(id ID) []byte { return appendRowKey(nil, wakeKey{lookRow{r.look}, id}) }

// parseWaking decodes a row of the index. With an error it returns what the key says.
func parseWaking(e kv.Entry) (w Waking, err error) {
	k, err := keys.Parse[wakeKey](e.Key)
	if err != nil {
		return Waking{}, rowError(err)
	}
	w.ID = k.ID
	r, err := open(e.Value, wakeVersion, "row that wakes actor "+k.ID.String())
	if err != nil {
		return w, err
	}
	row := wakeRow{look: k.Look, at: r.I64()}
	w.Name, w.Layout = r.String(), Layout(r.U8())
	copy(w.host[:], r.Fixed(len(w.host)))
	row.tried = readTried(r)
	if err := r.Done(); err != nil {
		return Waking{ID: k.ID}, fmt.Errorf("actorstore: row that wakes actor %s: %w: %w", k.ID, err, ErrCorrupt)
	}
	if w.Layout >= layouts {
		return Waking{ID: k.ID}, &FormatError{What: "row that wakes actor " + k.ID.String(), Found: uint64(w.Layout), Known: layouts - 1}
	}
	w.Wake = row.wake()
	return w, nil
}
