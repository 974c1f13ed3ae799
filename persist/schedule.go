package persist

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
)

// A Schedule is what the actor has to do at times of day. It is safe for concurrent use,
// by actions, too.
//
// Events that are due run one after the other, in the order of their times, those of the
// same time in the order in which they were scheduled. An event runs until its action
// has succeeded, at least once: it is removed, or moved to its next time, by a commit
// after that, with what the action has staged. One that fails is tried again later and
// doesn't keep others waiting.
type Schedule struct {
	r     *Record
	clock *alarm.Clock
	// stored says when the actor must be awake: for all that is stored, whether it is
	// being run, or can't be, because nothing is started or everything is closed.
	stored *alarm.Source
	// source rings when something is to be run.
	source *alarm.Source // nil until Start

	// arming orders the settings of the alarms. It is taken before Record.mu.
	arming sync.Mutex

	// Guarded by Record.mu.
	lookup  func(action string) Action // nil: not started
	stopped bool
	ctx     context.Context // of the actions; nil until Start
	cancel  context.CancelFunc
	idle    chan struct{}       // closed while no event runs
	missing map[string]struct{} // actions of which it was logged that they are
	asked   int                 // how often Reconsider was called  +checklocks:r.mu
}

// open makes s the schedule of r.
func (s *Schedule) open(r *Record) {
	s.r, s.clock = r, r.opts.Clock
	if s.clock == nil {
		s.clock, r.ownClock = alarm.New(nil), true
	}
	s.idle, s.missing = make(chan struct{}), map[string]struct{}{}
	close(s.idle)
	s.stored = s.clock.Lasting(sourceName, func() {}) // it is never set, only held
	s.arm()
}

// sourceName is that of the schedule among the lasting sources of an actor's clock.
const sourceName = "schedule"

// Add schedules a job and returns the id of the event. It is on stable storage then.
//
// Errors: ErrJob; *SizeError when the record has no room for it; those of the actor.
func (s *Schedule) Add(ctx context.Context, job Job) (id string, err error) {
	var b batch.Batch
	if id, err = s.r.In(&b).Add(job); err != nil {
		return "", err
	}
	return id, s.r.commit(ctx, &b)
}

// Cancel removes an event and says whether there was one. When it returns the event
// doesn't begin to run any more; one that is running goes on, and is not tried again.
func (s *Schedule) Cancel(ctx context.Context, id string) (found bool, err error) {
	var b batch.Batch
	err = s.r.In(&b).change(func(t *Tx) (err error) {
		found, err = t.remove(func(e *event) bool { return e.id == id })
		return err
	})
	if err == nil {
		err = s.r.commit(ctx, &b)
	}
	return found && err == nil, err
}

// Retry makes an event that waits for its next attempt, or is parked, due at once, with
// no attempts counted. ErrNoEvent says that no event has that id.
func (s *Schedule) Retry(ctx context.Context, id string) error {
	var b batch.Batch
	if err := s.r.In(&b).change(func(t *Tx) error { return t.retry(id) }); err != nil {
		return err
	}
	return s.r.commit(ctx, &b)
}

// List returns the events, the next first.
func (s *Schedule) List() ([]Event, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return export(s.r.events), s.r.usable()
}

// next returns when the first of the events is due for which want is true, the zero time for
// never.
//
// +checklocks:s.r.mu
func (s *Schedule) next(want func(*event) bool) time.Time {
	first, any := int64(0), false
	for _, e := range s.r.events {
		if any && e.at >= first {
			break // so are those behind it
		}
		if want(e) && (!any || e.due() < first) {
			first, any = e.due(), true
		}
	}
	if !any {
		return time.Time{}
	}
	at := time.UnixMilli(first).UTC()
	if at.IsZero() { // which means never, and is long ago
		at = at.Add(1)
	}
	return at
}

// Add is Schedule.Add: the event is scheduled when the batch lands. The id is the
// event's in any case. Of the errors of Add only a *SizeError comes from the commit.
func (t *Tx) Add(job Job) (id string, err error) {
	e, err := newEvent(&job, t.r.sched.clock.Now())
	if err != nil {
		return "", err
	}
	return e.id, t.change(func(t *Tx) error { return t.add(e, job.ID != "") })
}

// Cancel is Schedule.Cancel. While the batch is committed the event doesn't begin to run.
func (t *Tx) Cancel(id string) error {
	return t.change(func(t *Tx) error {
		_, err := t.remove(func(e *event) bool { return e.id == id })
		return err
	})
}

// Done ends the event for which f is called: what the batch does is then done exactly once.
// Once it has landed, the action isn't called for this event any more, whatever it returns.
func (t *Tx) Done(f *Firing) error { return t.end(f.e) }

// end has the batch end this coming of an event: remove it, or move it to its next time.
// It does nothing if the event is gone.
func (t *Tx) end(e *event) error {
	return t.change(func(t *Tx) error {
		if e.times != nil && contains(t.events, e) {
			if next := e.moved(t.r.sched.clock.Now()); next != nil {
				return t.replace(e, next)
			}
		}
		_, err := t.remove(func(o *event) bool { return o == e })
		return err
	})
}

// change has the batch change the events. fn runs under Record.mu.
func (t *Tx) change(fn func(t *Tx) error) error {
	return t.do(func(t *Tx) error {
		t.r.mu.Lock()
		defer t.r.mu.Unlock()
		return fn(t)
	})
}

// retry has the batch make an event due at once.
//
// +checklocks:t.r.mu
func (t *Tx) retry(id string) error {
	found := false
	for _, e := range t.events { // replace makes a list of its own
		if e.id != id {
			continue
		}
		found = true
		if e.running {
			continue // it is being tried
		}
		fresh := &event{stored: e.stored, times: e.times, noted: e.noted, note: note{cron: e.cron}}
		if e.cron.set() && e.times == nil { // its rule can't be followed
			var err error
			if fresh.times, err = e.cron.parse(); err != nil {
				return err
			}
		}
		if err := t.replace(e, fresh); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%w: %.80q", ErrNoEvent, id)
	}
	return nil
}

// add has the batch add e, in the place of what has its id if that was chosen.
//
// +checklocks:t.r.mu
func (t *Tx) add(e *event, chosen bool) error {
	events := t.events
	if chosen {
		for _, o := range events {
			if e.same(o) && !o.parked {
				return nil
			}
		}
		events = make([]*event, 0, len(t.events))
		for _, o := range t.events {
			if o.id == e.id {
				t.leave(o)
				continue
			}
			events = append(events, o)
		}
	}
	if e.noted {
		if err := t.note(e); err != nil {
			return err
		}
	}
	t.setEvents(insert(events, e))
	return nil
}

// remove has the batch remove the events that match, and what is noted about them, and
// reports whether there are any.
//
// +checklocks:t.r.mu
func (t *Tx) remove(match func(*event) bool) (found bool, err error) {
	left := make([]*event, 0, len(t.events))
	for _, e := range t.events {
		if !match(e) {
			left = append(left, e)
			continue
		}
		found = true
		t.leave(e)
		if !e.noted {
			continue
		}
		if err := t.noNote(e.id); err != nil {
			return found, err
		}
	}
	if found {
		t.setEvents(left)
	}
	return found, nil
}

// replace has the batch put another event in the place of e.
//
// +checklocks:t.r.mu
func (t *Tx) replace(e, by *event) error {
	i := slices.Index(t.events, e)
	if i < 0 {
		return errStays
	}
	t.leave(e)
	if by.noted {
		if err := t.note(by); err != nil {
			return err
		}
	}
	left := slices.Delete(slices.Clone(t.events), i, i+1)
	if by.at == e.at {
		t.setEvents(slices.Insert(left, i, by)) // it keeps its place
	} else {
		t.setEvents(insert(left, by))
	}
	return nil
}

// note has the note about e land with the batch, or go if there is nothing to note.
//
// +checklocks:t.r.mu
func (t *Tx) note(e *event) error {
	t.wakeBy(e)
	if e.note.empty() {
		return t.noNote(e.id)
	}
	return t.stageNote(e.id, appendNote(make([]byte, 0, actorstore.MaxNoteValue), &e.note))
}

// +checklocks:t.r.mu
func (t *Tx) noNote(id string) error { return t.stageNote(id, nil) }

// +checklocks:t.r.mu
func (t *Tx) stageNote(id string, value []byte) error {
	if t.preview {
		return nil
	}
	return t.r.actor.StageNote(t.b, noteKey(id), value)
}

// shut leaves to the clock when the actor must be awake again.
func (s *Schedule) shut() {
	s.arm()
	s.stored.Close()
}

// stop ends the schedule, and waits until nothing runs.
func (s *Schedule) stop(ctx context.Context) error {
	r := s.r
	r.mu.Lock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel()
	}
	idle := s.idle
	r.mu.Unlock()
	s.arming.Lock()
	if s.source != nil {
		s.source.Close()
	}
	s.arming.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
