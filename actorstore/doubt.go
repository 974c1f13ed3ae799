package actorstore

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Doubt is a commit whose caller got an error that left open whether it landed,
// and what became of it. See Actor.Doubt.
type Doubt struct {
	Commit  kv.CommitID
	Seq     uint64 // its number, if it landed
	Outcome kv.Outcome

	before [layout.HeadSize]byte // the head that it had to find
	sent   kv.CommitID           // what the engine knows it by
}

// A DoubtError is the failure of a commit that left open whether it landed. The
// handle is poisoned by it. The next handle to the actor tells what became of the
// commit: by Actor.Doubt in the same Store, by Store.Outcome anywhere.
type DoubtError struct {
	Actor  ID
	Commit kv.CommitID
	Err    error // the engine's
}

// Error names the commit and the reason.
func (e *DoubtError) Error() string {
	return fmt.Sprintf("the outcome of commit %x is in doubt: %v", e.Commit, e.Err)
}

// Unwrap returns Err.
func (e *DoubtError) Unwrap() error { return e.Err }

// outcome says what the head tells of a commit that its engine doesn't remember. If
// others were at work since, it tells nothing: they may have dropped the actor and begun
// it anew.
func (rec *record) outcome(d *Doubt) kv.Outcome {
	switch {
	case rec.row != nil && rec.head.Last == d.Commit:
		return kv.OutcomeApplied
	case bytes.Equal(rec.row, d.before[:]):
		return kv.OutcomeNotApplied
	}
	return kv.OutcomeUnknown
}

// doubts are those of handles that were closed with one.
type doubts struct {
	mu sync.Mutex
	by map[ID]Doubt // +checklocks:mu
}

// of returns the doubt that the last handle to the actor left, nil for none.
func (l *doubts) of(id ID) *Doubt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.by[id]; ok {
		return &d
	}
	return nil
}

// set records a doubt, or forgets it.
func (l *doubts) set(id ID, d *Doubt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == nil {
		delete(l.by, id)
		return
	}
	if l.by == nil {
		l.by = map[ID]Doubt{}
	}
	l.by[id] = *d
}
