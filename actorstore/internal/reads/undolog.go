package reads

import (
	"errors"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// An undoLog leads from the newest state back to those that are open. Its user locks it.
type undoLog struct {
	states []openState // oldest first
	undos  []*undo     // oldest first
	held   int64       // bytes of values in undos
}

// An openState is a commit whose state is open.
type openState struct {
	seq          uint64
	lists, pages int // States that may be listed, and others
}

func (o *openState) count(lists bool, n int) {
	if lists {
		o.lists += n
	} else {
		o.pages += n
	}
}

// open notes a State of commit seq, the newest one.
func (l *undoLog) open(seq uint64, lists bool) {
	if n := len(l.states); n == 0 || l.states[n-1].seq != seq {
		l.states = append(l.states, openState{seq: seq})
	}
	l.states[len(l.states)-1].count(lists, 1)
}

// close forgets a State.
func (l *undoLog) close(seq uint64, lists bool) {
	for i := range l.states {
		if o := &l.states[i]; o.seq == seq {
			if o.count(lists, -1); o.lists+o.pages == 0 {
				l.states = append(l.states[:i], l.states[i+1:]...)
			}
			break
		}
	}
}

// add appends the undo of the next commit.
func (l *undoLog) add(u *undo) {
	l.undos = append(l.undos, u)
	l.held += u.bytes
}

// of returns the undo of the next commit, nil if it isn't there.
func (l *undoLog) of(next uint64) *undo {
	if n := len(l.undos); n > 0 && l.undos[n-1].seq == next {
		return l.undos[n-1]
	}
	return nil
}

// take takes back the undo of a commit that wasn't applied. A pin is still good for the commit that
// takes its number.
func (l *undoLog) take(next uint64) {
	if u := l.of(next); u != nil && u.pin == nil {
		l.held -= u.bytes
		l.undos = l.undos[:len(l.undos)-1]
	}
}

// prune takes out what no open State needs.
func (l *undoLog) prune() (unused []*undo) {
	for len(l.undos) > 0 && (len(l.states) == 0 || l.undos[0].seq <= l.states[0].seq) {
		unused = append(unused, l.undos[0])
		l.held -= l.undos[0].bytes
		l.undos = l.undos[1:]
	}
	return unused
}

// find says how to read key as it was after commit seq, which is that of an open
// State: from the entry, from the engine's snapshot, or, when there is neither and
// no error, from the newest state.
func (l *undoLog) find(key []byte, seq uint64) (*cache.Entry, kv.Snapshot, error) {
	for _, u := range l.undos {
		if u.seq <= seq {
			continue
		}
		if u.final() {
			return nil, u.pin, u.err
		}
		if e := u.old[string(key)]; e != nil {
			return e, nil, nil
		}
	}
	return nil, nil, nil
}

// pinned returns the newest commit before which the engine keeps the state: those that
// are older need no undo of a later one. 0 for none.
func (l *undoLog) pinned() (seq uint64) {
	for _, u := range l.undos {
		if u.final() {
			seq = u.seq
		}
	}
	return seq
}

// needed says for whom the commit about to be sent must prepare an undo: whose state
// no undo leads to for good. all is whether they need the whole state.
func (l *undoLog) needed() (any, all bool) {
	pinned := l.pinned()
	for _, o := range l.states {
		if o.seq >= pinned {
			any, all = true, all || o.lists > 0
		}
	}
	return any, all
}

// An undo leads from commit seq back to the state before.
type undo struct {
	seq uint64
	// pin is the state before, nil when old has everything that the commit touches.
	pin kv.Snapshot
	err error // why there is neither: the handle was closed meanwhile
	old map[string]*cache.Entry
	// bytes is what old keeps from being freed, at most.
	bytes int64
}

// final says whether this undo needs no later one.
func (u *undo) final() bool { return u.pin != nil || u.err != nil }

// remembered returns the undo of a commit from memory, nil if that doesn't hold enough.
func remembered(c *Change, seq uint64, part *cache.Part) *undo {
	if c.Drop || part == nil {
		return nil
	}
	u := &undo{seq: seq, old: make(map[string]*cache.Entry, c.To-c.From)}
	for i := c.From; i < c.To; i++ {
		o := c.Op(i)
		if o.Kind == batch.DeleteRange {
			if c.Before[i] > 0 {
				return nil
			}
			continue
		}
		if _, known := u.old[string(o.Key)]; known {
			continue // an earlier write of the commit found what was there
		}
		e := absent
		if c.Before[i] >= 0 {
			if e = part.Get(o.Key); e == nil || !e.Answers(true) {
				return nil
			}
		}
		u.old[string(o.Key)] = e
		u.bytes += e.Size()
	}
	return u
}

// absent stands for no value.
var absent = &cache.Entry{Kind: cache.Absent}

// closeAll closes the snapshots of undos that aren't used any more.
func closeAll(unused []*undo) error {
	var errs []error
	for _, u := range unused {
		if u.pin != nil {
			errs = append(errs, u.pin.Close())
		}
	}
	return errors.Join(errs...)
}
