package layout

import (
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// A Wake says when an actor must be woken. Its row lies beside the head.
type Wake struct {
	Look  int64    // where the actor stands in the index, in ms: At, or since when Tried holds
	At    int64    // in ms; NeverAt if only versions that haven't tried are to look
	Tried []uint64 // the versions of the actor's code that tried in vain, the newest last, at most MaxTried
}

// NeverAt is the time of a Wake without one, with versions that tried.
const NeverAt = math.MaxInt64

// MaxTried is how many versions a Wake holds.
const MaxTried = 4

// Append appends the row.
func (w *Wake) Append(dst []byte) []byte {
	dst = bare.AppendI64(bare.AppendVersion(dst, wakeVersion), w.Look)
	return appendTried(bare.AppendI64(dst, w.At), w.Tried)
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

// ParseWake decodes the row beside a head; id is the actor's, for the errors.
func ParseWake(id ID, row []byte) (Wake, error) {
	what := "time to wake actor " + id.String()
	r, err := open(row, wakeVersion, what)
	if err != nil {
		return Wake{}, err
	}
	w := Wake{Look: r.I64(), At: r.I64(), Tried: readTried(r)}
	if len(w.Tried) == 0 && w.Look != w.At {
		r.Fail("two times, %d and %d", w.Look, w.At)
	}
	if err := r.Done(); err != nil {
		return Wake{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	return w, nil
}

// A Waking is the value of a row of the index. The time at which the actor stands there,
// and its id, are in the key.
type Waking struct {
	At     int64    // as of the actor's Wake
	Name   string   // "" if the actor has none
	Layout uint8    // of the actor's keys, below Layouts
	Host   [16]byte // that had the actor open when the row was written; zero for none
	Tried  []uint64 // as of the actor's Wake
}

// Append appends the row.
func (w *Waking) Append(dst []byte) []byte {
	dst = bare.AppendI64(bare.AppendVersion(dst, wakeVersion), w.At)
	dst = bare.AppendU8(bare.AppendString(dst, w.Name), w.Layout)
	return appendTried(bare.AppendFixed(dst, w.Host[:]), w.Tried)
}

// ParseWaking decodes a row of the index; id is the actor's, for the errors.
func ParseWaking(id ID, row []byte) (w Waking, err error) {
	what := "row that wakes actor " + id.String()
	r, err := open(row, wakeVersion, what)
	if err != nil {
		return Waking{}, err
	}
	w.At, w.Name, w.Layout = r.I64(), r.String(), r.U8()
	copy(w.Host[:], r.Fixed(len(w.Host)))
	w.Tried = readTried(r)
	if err := r.Done(); err != nil {
		return Waking{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	if w.Layout >= Layouts {
		return Waking{}, &kv.FormatError{What: what, Found: uint64(w.Layout), Known: Layouts - 1}
	}
	return w, nil
}
