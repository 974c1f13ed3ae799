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

// A wakeRow is the row beside the head that says when the actor must be woken. It doesn't
// change once it is made. nil is no row.
type wakeRow struct {
	look  int64 // where the actor stands in the index, Unix ms: at, or since when tried holds
	at    int64 // Unix ms; neverAt if only another version is to look
	tried []uint64
}

// neverAt is the time of a row that has versions that tried, and no time.
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

// by returns the row of an actor that has something new to do at a time. One that is due stays due.
func (r *wakeRow) by(at, now int64) *wakeRow {
	switch {
	case r == nil:
	case len(r.tried) == 0 && r.at <= max(at, now):
		return r
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

// indexRow returns the row of the index for r, of an actor that a host has open, zero for none.
func (r *wakeRow) indexRow(a *Actor, h HostID) kv.Op {
	value := bare.AppendI64(bare.AppendVersion(nil, wakeVersion), r.at)
	value = bare.AppendU8(bare.AppendString(value, a.Name()), uint8(a.layout))
	return kv.Set(r.indexKey(a.id), appendTried(bare.AppendFixed(value, h[:]), r.tried))
}

func (r *wakeRow) indexKey(id ID) []byte { return appendRowKey(nil, wakeKey{lookRow{r.look}, id}) }

// parseWaking decodes a row of the index.
func parseWaking(e kv.Entry) (w Waking, err error) {
	k, err := keys.Parse[wakeKey](e.Key)
	if err != nil {
		return Waking{}, rowError(err)
	}
	w.ID = k.ID
	r, err := open(e.Value, wakeVersion, "row that wakes actor "+k.ID.String())
	if err != nil {
		return Waking{}, err
	}
	row := wakeRow{look: k.Look, at: r.I64()}
	w.Name, w.Layout = r.String(), Layout(r.U8())
	copy(w.host[:], r.Fixed(len(w.host)))
	row.tried = readTried(r)
	if err := r.Done(); err != nil {
		return Waking{}, fmt.Errorf("actorstore: row that wakes actor %s: %w: %w", k.ID, err, ErrCorrupt)
	}
	if w.Layout >= layouts {
		return Waking{}, &FormatError{What: "row that wakes actor " + k.ID.String(), Found: uint64(w.Layout), Known: layouts - 1}
	}
	w.Wake = row.wake()
	return w, nil
}

// stageWake stages what the batch changes of when the actor must be woken. Of an Ordered batch it lands with the first part:
// before what is to be done.
func (f *flight) stageWake(from int) {
	a := f.a
	if from > 0 {
		return // f.wake is what the first part has made of it
	}
	old := a.wake.Load()
	f.wake = old
	switch {
	case a.hidden:
		return
	case a.rewake != nil:
		f.wake = rowOf(a.rewake, a.store.millis())
	case f.b.WakeTime() != 0:
		f.wake = old.by(f.b.WakeTime(), a.store.millis())
	}
	if f.wake != old {
		f.opsBuf = f.wake.replace(f.opsBuf, a, old)
	}
}

// replace appends what puts r, and its row of the index, in the place of old.
func (r *wakeRow) replace(ops []kv.Op, a *Actor, old *wakeRow) []kv.Op {
	if old != nil && (r == nil || r.look != old.look) {
		ops = append(ops, kv.Clear(old.indexKey(a.id)))
	}
	if r == nil {
		return append(ops, kv.Clear(headWakeKey(a.id)))
	}
	var h HostID
	if a.host != nil && a.rewake == nil {
		h = a.host.id
	}
	return append(ops, kv.Set(headWakeKey(a.id), r.append(nil)), r.indexRow(a, h))
}
