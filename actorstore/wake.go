package actorstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
	"github.com/greenroomdb/greenroom/kv"
)

// When an actor must be woken stands in a row beside its head, and in an index over the
// store in the order of time. A commit that stores something to be done later
// (batch.Batch.WakeBy) brings both forward, so the row is never later than what is stored.
// It may be earlier: what is done, or taken back, leaves it as it is, so that the commits of
// an actor that is awake write it once. The actor's owner puts it right with SetWake
// before it closes the actor, when it knows everything.

// Wakes yields the actors that must be woken by a time, or are to be looked at by
// versions of their code that haven't tried, in the order of those times. An actor that another host has open is
// left out as long as that host's lease lasts, and so is one that another Store of this process has open: what the index says is for those;
// with all set they are yielded, too. It reads the index in pages, each of one state, and the lease of each host that the index names. A row that is damaged is yielded as
// an error that wraps ErrCorrupt or ErrNewerFormat, with the ID if that can be read, and the sequence goes on. Any other error ends it.
func (s *Store) Wakes(ctx context.Context, by time.Time, all bool) iter.Seq2[Waking, error] {
	return func(yield func(Waking, error) bool) {
		start, end := layout.WakesUntil(by.UnixMilli())
		elsewhere := map[HostID]bool{}
		for e, err := range s.pages(ctx, start, end) {
			var w Waking
			var damaged error
			if err == nil {
				w, damaged = parseWaking(e)
			}
			skip := false
			if err == nil && damaged == nil && !all {
				skip, err = s.hasOther(ctx, &w, elsewhere)
			}
			if err != nil {
				yield(Waking{}, fmt.Errorf("actorstore: actors to be woken: %w", err))
				return
			}
			if !skip && !yield(w, damaged) {
				return
			}
		}
	}
}

// hasOther reports whether another host that is alive, or another Store of this process, has the actor open. It remembers what it
// finds out of hosts in elsewhere.
func (s *Store) hasOther(ctx context.Context, w *Waking, elsewhere map[HostID]bool) (bool, error) {
	if w.host.IsZero() || w.host == s.hosts.Own() {
		return s.owners.other(s, w.ID), nil
	}
	there, known := elsewhere[w.host]
	if !known {
		var err error
		if there, err = s.hosts.Alive(ctx, w.host); err != nil {
			return false, err
		}
		elsewhere[w.host] = there
	}
	return there, nil
}

// OnWake calls fn whenever a handle to an actor is closed that a Store of this process had on the same
// engine: with what the handle knew of when the actor must be woken, the zero Wake for never, and with the failure
// that ended the handle, nil if it was closed in good order. On an engine
// that other processes have open as well, fn hears of the handles of this Store alone. fn must be quick, and may be called
// from several goroutines. After stop returned it isn't called any more.
func (s *Store) OnWake(fn func(w Waking, lost error)) (stop func()) {
	return s.told.closings.add(func(c closing) { fn(c.w, c.lost) })
}

// OnChange calls fn whenever a commit of an actor was applied, or an actor was dropped, by a Store of this process on the same engine, in the
// order of the actor's commits, and before the next one of that actor begins. The commit may not be on stable storage yet: a crash can undo
// it. On an engine that other processes have open as well, fn hears of the commits of this Store alone. One whose outcome the Store doesn't
// know is not told of. fn must be quick, must not use the actor's handle, and may be called from several goroutines. After stop returned it isn't
// called any more.
func (s *Store) OnChange(fn func(c Change)) (stop func()) { return s.told.changes.add(fn) }

// yieldWake returns what has the index say that no host has the actor open, which is closed. ok is false if
// the handle doesn't know what the index says.
func yieldWake(a *Actor) (index lease.Index, ok bool) {
	if a.Err() != nil {
		return index, false
	}
	if row := a.wake.Load(); row != nil && row.held {
		index = row.yield(a.id, a.Name(), a.layout)
	}
	return index, true
}

// yieldUnknown is yieldWake for an actor that the host has open no more, from what is stored.
func yieldUnknown(ctx context.Context, eng kv.Engine, id ID) (lease.Index, error) {
	rec, err := loadRecord(ctx, eng, id)
	if err != nil || rec.wake == nil {
		return lease.Index{}, err
	}
	return rec.wake.yield(id, rec.name, rec.layout), nil
}

// yield returns what has the index say that no host has the actor open, if r still stands beside the head: a crash of the engine's server may
// have taken it back.
func (r *wakeRow) yield(id ID, name string, l Layout) lease.Index {
	return lease.Index{
		Checks: []kv.Check{{Key: layout.RecordKey(layout.ID(id), layout.PartWake), Value: r.Append(nil)}},
		Ops:    []kv.Op{r.indexRow(id, name, l, HostID{})},
	}
}

// appendWake appends what puts r, and its row of the index, in the place of old.
func appendWake(ops []kv.Op, a *Actor, old, r *wakeRow) []kv.Op {
	if old != nil && (r == nil || r.Look != old.Look) {
		ops = append(ops, kv.Clear(old.indexKey(a.id)))
	}
	if r == nil {
		return append(ops, kv.Clear(layout.RecordKey(layout.ID(a.id), layout.PartWake)))
	}
	var h HostID
	if r.held {
		h = a.host.Host()
	}
	return append(ops, kv.Set(layout.RecordKey(layout.ID(a.id), layout.PartWake), r.Append(nil)), r.indexRow(a.id, a.Name(), a.layout, h))
}

// indexRow returns the row of the index for r, of an actor that a host has open, zero for none.
func (r *wakeRow) indexRow(id ID, name string, l Layout, h HostID) kv.Op {
	row := layout.Waking{At: r.At, Name: name, Layout: uint8(l), Host: h, Tried: r.Tried}
	return kv.Set(r.indexKey(id), row.Append(nil))
}
