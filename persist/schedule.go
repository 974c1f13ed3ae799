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
// keeps nobody waiting.
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
	ctx     context.Context // of the actions
	cancel  context.CancelFunc
	idle    chan struct{} // closed while no event runs
}

// open makes s the schedule of r.
func (s *Schedule) open(r *Record) {
	s.r, s.clock = r, r.opts.Clock
	if s.clock == nil {
		s.clock, r.ownClock = alarm.New(nil), true
	}
	s.idle = make(chan struct{})
	close(s.idle)
	s.stored = s.clock.Lasting(sourceName, func() {}) // it is never set, only held
	s.arm()
}

// sourceName is that of the schedule among the lasting sources of an actor's clock.
const sourceName = "schedule"

// At has action called at a time, with args. See Job and Add.
func (s *Schedule) At(ctx context.Context, at time.Time, action string, args ...any) (id string, err error) {
	return s.Add(ctx, Job{Action: action, Args: args, At: at})
}

// After has action called when d has passed. See Job and Add.
func (s *Schedule) After(ctx context.Context, d time.Duration, action string, args ...any) (id string, err error) {
	return s.At(ctx, s.clock.Now().Add(d), action, args...)
}

// Cron has action called again and again, as a cron expression says, in UTC. See Job.
func (s *Schedule) Cron(ctx context.Context, expr, action string, args ...any) (id string, err error) {
	return s.Add(ctx, Job{Action: action, Args: args, Cron: expr})
}

// Add schedules a job and returns the id of the event. It is on stable storage then.
//
// Errors: ErrJob; *SizeError when the record has no room for it; those of the actor.
func (s *Schedule) Add(ctx context.Context, job Job) (id string, err error) {
	var b batch.Batch
	if id, err = s.StageAdd(&b, job); err != nil {
		return "", err
	}
	if err := s.commit(ctx, &b); err != nil {
		return "", err
	}
	return id, nil
}

// StageAdd is Add, to be made by the commit of b, or not at all. The id is that of the
// event in any case. Of its errors ErrJob comes at once, the others from the commit.
func (s *Schedule) StageAdd(b *batch.Batch, job Job) (id string, err error) {
	e, err := newEvent(&job, s.clock.Now())
	if err != nil {
		return "", err
	}
	s.stage(b, func(f *flight) error { return s.add(f, e, job.ID != "") })
	return e.id, nil
}

// add has the batch add e, in the place of what has its id if that was chosen.
//
// +checklocks:s.r.mu
func (s *Schedule) add(f *flight, e *event, chosen bool) error {
	events := f.events
	if chosen {
		for _, o := range events {
			if e.same(o) && !o.parked {
				return nil
			}
		}
		events = make([]*event, 0, len(f.events))
		for _, o := range f.events {
			if o.id == e.id {
				f.leave(o)
				continue
			}
			events = append(events, o)
		}
	}
	if e.noted {
		if err := s.stageNote(f, e); err != nil {
			return err
		}
	}
	return f.setEvents(insert(events, e))
}

// Cancel removes an event and says whether there was one. When it returns the event
// doesn't begin to run any more; one that is running goes on, and is not tried again.
func (s *Schedule) Cancel(ctx context.Context, id string) (found bool, err error) {
	var b batch.Batch
	s.stage(&b, func(f *flight) (err error) {
		found, err = s.remove(f, func(e *event) bool { return e.id == id })
		return err
	})
	if err := s.commit(ctx, &b); err != nil {
		return false, err
	}
	return found, nil
}

// StageCancel is Cancel, to be made by the commit of b, or not at all. While b is being
// committed the event doesn't begin to run.
func (s *Schedule) StageCancel(b *batch.Batch, id string) {
	s.stage(b, func(f *flight) error {
		_, err := s.remove(f, func(e *event) bool { return e.id == id })
		return err
	})
}

// Clear removes all events and says how many there were. See Cancel.
func (s *Schedule) Clear(ctx context.Context) (n int, err error) {
	var b batch.Batch
	s.stage(&b, func(f *flight) error {
		n = len(f.events)
		_, err := s.remove(f, func(*event) bool { return true })
		return err
	})
	if err := s.commit(ctx, &b); err != nil {
		return 0, err
	}
	return n, nil
}

// StageClear is Clear, to be made by the commit of b, or not at all.
func (s *Schedule) StageClear(b *batch.Batch) {
	s.stage(b, func(f *flight) error {
		_, err := s.remove(f, func(*event) bool { return true })
		return err
	})
}

// Retry makes an event that waits for its next attempt, or is parked, due at once, with
// no attempts counted. ErrNoEvent says that there is none of that id.
func (s *Schedule) Retry(ctx context.Context, id string) error {
	var b batch.Batch
	s.stage(&b, func(f *flight) error {
		found := false
		for _, e := range f.events { // replace makes a list of its own
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
			if err := s.replace(f, e, fresh); err != nil {
				return err
			}
		}
		if !found {
			return fmt.Errorf("%w: %.80q", ErrNoEvent, id)
		}
		return nil
	})
	return s.commit(ctx, &b)
}

// List returns the events, the next first.
func (s *Schedule) List() ([]Event, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	all := make([]Event, len(s.r.events))
	for i, e := range s.r.events {
		all[i] = e.export()
	}
	return all, s.r.usable()
}

// Next returns when the actor must be awake for its schedule, the zero time for never. An
// event that is being run counts until its end is stored, one that is parked doesn't.
func (s *Schedule) Next() time.Time {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.next((*event).waiting)
}

// next returns when the first of the events is due for which want is true.
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

// stage has b change the events. fn runs under the actor's commit lock and Record.mu.
func (s *Schedule) stage(b *batch.Batch, fn func(f *flight) error) {
	b.Late(func(b *batch.Batch) error {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		f, err := s.r.board(b)
		if err != nil {
			return err
		}
		return fn(f)
	})
}

// commit lands what was staged, with the newest state or, if there is no room for that,
// with the one that is stored.
func (s *Schedule) commit(ctx context.Context, b *batch.Batch) error {
	err := s.r.check()
	if err == nil {
		var refused bool
		if refused, err = s.try(ctx, b, false); refused {
			_, err = s.try(ctx, b, true)
		}
	}
	b.Abort(err) // settled already if it has landed
	return err
}

// try commits b, which stays as it is after an error: behind with the state that is
// stored. It says whether b was refused for the newest state, perhaps.
func (s *Schedule) try(ctx context.Context, b *batch.Batch, behind bool) (refused bool, err error) {
	r := s.r
	var f *flight
	own := batch.Batch{Mode: b.Mode}
	own.Late(func(own *batch.Batch) (err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if f, err = r.board(own); err == nil {
			f.behind = behind
		}
		return err
	})
	own.Join(b)
	err = r.actor.Commit(ctx, &own)
	r.mu.Lock()
	defer r.mu.Unlock()
	return err != nil && f != nil && f.refused, err
}

// remove has the batch remove the events that match, and what is noted about them.
//
// +checklocks:s.r.mu
func (s *Schedule) remove(f *flight, match func(*event) bool) (found bool, err error) {
	left := make([]*event, 0, len(f.events))
	for _, e := range f.events {
		if !match(e) {
			left = append(left, e)
			continue
		}
		found = true
		f.leave(e)
		if !e.noted {
			continue
		}
		if err := s.stageNoNote(f, e.id); err != nil {
			return found, err
		}
	}
	if !found {
		return false, nil
	}
	return true, f.setEvents(left)
}

// replace has the batch put another event in the place of e.
//
// +checklocks:s.r.mu
func (s *Schedule) replace(f *flight, e, by *event) error {
	i := slices.Index(f.events, e)
	if i < 0 {
		return errStays
	}
	f.leave(e)
	if by.noted {
		if err := s.stageNote(f, by); err != nil {
			return err
		}
	}
	left := slices.Delete(slices.Clone(f.events), i, i+1)
	if by.at == e.at {
		return f.setEvents(slices.Insert(left, i, by)) // it keeps its place
	}
	return f.setEvents(insert(left, by))
}

// stageNote has the note about e land with the batch, or go if there is nothing to note.
//
// +checklocks:s.r.mu
func (s *Schedule) stageNote(f *flight, e *event) error {
	if e.note.empty() {
		return s.stageNoNote(f, e.id)
	}
	return s.r.actor.StageNote(f.batch, noteKey(e.id), appendNote(make([]byte, 0, actorstore.MaxNoteValue), &e.note))
}

// +checklocks:s.r.mu
func (s *Schedule) stageNoNote(f *flight, id string) error {
	return s.r.actor.StageNote(f.batch, noteKey(id), nil)
}
