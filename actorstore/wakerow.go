package actorstore

import (
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
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
const MaxTried = layout.MaxTried

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
	layout.Wake
	held bool // the index says that this process has the actor open
}

// rowOf returns the row that says w at a time, nil for none.
func rowOf(w *Wake, now int64) *wakeRow {
	r := &wakeRow{Wake: layout.Wake{At: layout.NeverAt, Tried: slices.Clone(w.Tried)}}
	if !w.At.IsZero() {
		r.At = w.At.UnixMilli()
	}
	switch {
	case len(r.Tried) > 0:
		r.Look = now
	case r.At == layout.NeverAt:
		return nil
	default:
		r.Look = r.At
	}
	return r
}

func (r *wakeRow) wake() (w Wake) {
	if r == nil {
		return Wake{}
	}
	if w.Tried = r.Tried; r.At != layout.NeverAt {
		w.At = time.UnixMilli(r.At)
	}
	return w
}

// says reports whether the row says w.
func (r *wakeRow) says(w *Wake) bool {
	o := rowOf(w, 0)
	if r == nil || o == nil {
		return r == nil && o == nil
	}
	return r.At == o.At && slices.Equal(r.Tried, o.Tried)
}

// by returns the row of an actor that has something new to do at a time. One that is due stays due, and what
// versions tried in vain stays so until there is something else to do at once.
func (r *wakeRow) by(at, now int64) *wakeRow {
	switch {
	case r == nil:
	case len(r.Tried) == 0 && r.At <= max(at, now), len(r.Tried) > 0 && at > now && r.At <= at:
		return r
	case len(r.Tried) > 0 && at > now:
		return &wakeRow{Wake: layout.Wake{Look: r.Look, At: at, Tried: r.Tried}}
	default:
		at = min(at, r.At)
	}
	return &wakeRow{Wake: layout.Wake{Look: at, At: at}}
}

// parseWake decodes the row beside a head.
func parseWake(id ID, row []byte) (*wakeRow, error) {
	w, err := layout.ParseWake(layout.ID(id), row)
	if err != nil {
		return nil, err
	}
	return &wakeRow{Wake: w}, nil
}

func (r *wakeRow) indexKey(id ID) []byte { return layout.WakeKey(r.Look, layout.ID(id)) }

// parseWaking decodes a row of the index. With an error it returns what the key says.
func parseWaking(e kv.Entry) (w Waking, err error) {
	_, id, err := layout.ParseWakeKey(e.Key)
	if err != nil {
		return Waking{}, rowError(err)
	}
	w.ID = ID(id)
	row, err := layout.ParseWaking(id, e.Value)
	if err != nil {
		return w, err
	}
	w.Name, w.Layout, w.host = row.Name, Layout(row.Layout), row.Host
	w.Wake = (&wakeRow{Wake: layout.Wake{At: row.At, Tried: row.Tried}}).wake()
	return w, nil
}
