package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Job is something to be scheduled.
type Job struct {
	// ID identifies the event; "" makes a random one. An event of that id is replaced,
	// but for a Cron that is there already with the same Action, Args and Zone: that
	// stays as it is. So a job with an ID can be scheduled anew at every start.
	ID string
	// Action is the name of the action to call.
	Action string
	// Args are its arguments: what package internal/cbor can encode. nil means without arguments.
	Args []any
	// At is when: an event runs at this time or after it, to the millisecond. One that
	// has passed runs at once.
	At time.Time
	// Cron, instead of At, is a cron expression: five fields, minute first, or six,
	// second first, or @daily and the like, or @every and a duration, at most 100 bytes.
	// Day of month and day of week match if either does, unless one is * or ?, which leaves
	// it to the other; */2 isn't *.
	//
	// The time of day that a clock skips in spring comes right after the gap, the one
	// that it shows twice in autumn the first time; expressions whose minute or hour
	// begins with * go by what clocks show instead. What was missed while the actor
	// slept comes once, not many times.
	Cron string
	// Zone is the IANA name of the time zone of Cron; "" is UTC. It must be known on
	// every machine that runs the actor (import time/tzdata to be sure).
	Zone string
}

// An Event is what has been scheduled.
type Event struct {
	ID     string
	At     time.Time // UTC
	Action string
	Args   []byte // a CBOR array, nil for none; it must not be changed
	// Cron and Zone are the rule by which the event comes again, "" for none.
	Cron, Zone string
	// Attempts counts the calls of the action that failed since the event was due, and
	// LastError is what the last one failed with, shortened.
	Attempts  int
	LastError string
	// NotBefore is when the action is called again, zero if that is At.
	NotBefore time.Time
	// Parked: the action isn't called any more, because Options.MaxAttempts is reached
	// or what is stored about the event can't be used. See Schedule.Retry.
	Parked bool
}

// An event is an Event in memory. What the record has of it never changes: an event that
// moves is replaced.
type event struct {
	stored
	times *timetable // nil: it comes once
	noted bool       // there is a note, or may be

	note         // guarded by Record.mu
	running bool // +checklocks:Record.mu
	leaving bool // a batch that is being committed removes it  +checklocks:Record.mu
	aside   bool // its action is missing  +checklocks:Record.mu
}

// due returns when e may be run, Unix ms.
func (e *event) due() int64 { return max(e.at, e.notBefore) }

// waiting reports whether e is to be run when its time comes.
func (e *event) waiting() bool { return !e.parked && !e.aside }

// idle reports whether e is to be run when its time comes, and isn't being run or removed.
func (e *event) idle() bool { return e.waiting() && !e.running && !e.leaving }

// export returns e for others to see.
func (e *event) export() Event {
	x := Event{
		ID: e.id, At: time.UnixMilli(e.at).UTC(), Action: e.action, Args: e.args,
		Cron: e.cron.expr, Zone: e.cron.zone,
		Attempts: int(e.attempts), LastError: e.problem, Parked: e.parked,
	}
	if e.notBefore != 0 {
		x.NotBefore = time.UnixMilli(e.notBefore).UTC()
	}
	return x
}

// export returns events for others to see.
func export(events []*event) []Event {
	all := make([]Event, len(events))
	for i, e := range events {
		all[i] = e.export()
	}
	return all
}

// newEvent returns the event of a job; now is the time from which a Cron counts.
func newEvent(job *Job, now time.Time) (*event, error) {
	e := &event{stored: stored{id: job.ID, action: job.Action}}
	switch {
	case job.Action == "":
		return nil, fmt.Errorf("%w: no action", ErrJob)
	case !utf8.ValidString(job.ID) || !utf8.ValidString(job.Action):
		return nil, fmt.Errorf("%w: id or action is not UTF-8", ErrJob)
	}
	if job.ID == "" {
		e.id = uuid.NewString()
	}
	if job.Args != nil {
		args, err := cbor.MarshalList(job.Args)
		if err != nil {
			return nil, fmt.Errorf("%w: arguments of %.80q: %w", ErrJob, job.Action, err)
		}
		e.args = args
	}
	if job.Cron == "" {
		e.noted = job.ID != "" // an event of that id may have left one
		return e, e.setTime(job)
	}
	e.noted = true
	return e, e.setRule(job, now)
}

func (e *event) setTime(job *Job) (err error) {
	if job.Zone != "" {
		return fmt.Errorf("%w: a time zone and no cron expression", ErrJob)
	}
	e.at, err = millis(job.At)
	return err
}

func (e *event) setRule(job *Job, now time.Time) (err error) {
	if !job.At.IsZero() {
		return fmt.Errorf("%w: a time and a cron expression", ErrJob)
	}
	e.cron = rule{job.Cron, job.Zone}
	if e.times, err = e.cron.parse(); err != nil {
		return err
	}
	next, ok := e.times.next(now)
	if !ok {
		return fmt.Errorf("%w: cron expression %q: never", ErrJob, job.Cron)
	}
	e.at, err = millis(next)
	return err
}

// millis returns the first millisecond that isn't before t, as Unix time.
func millis(t time.Time) (int64, error) {
	if s := t.Unix(); s > math.MaxInt64/1000-1 || s < math.MinInt64/1000+1 {
		return 0, fmt.Errorf("%w: the time %v is out of range", ErrJob, t)
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++ // never too early
	}
	return ms, nil
}

// same says whether e is the same cron event as o, at whatever time it comes next.
func (e *event) same(o *event) bool {
	return e.cron.set() && e.cron == o.cron && e.id == o.id && e.action == o.action &&
		bytes.Equal(e.args, o.args) && (e.args == nil) == (o.args == nil)
}

// moved returns the next coming of a cron event after now, nil behind the last one.
func (e *event) moved(now time.Time) *event {
	// A clock that was set back must not bring what has come already.
	from := time.UnixMilli(max(e.at, now.UnixMilli()))
	next, ok := e.times.next(from)
	if !ok {
		return nil
	}
	at, err := millis(next)
	if err != nil {
		return nil
	}
	m := &event{stored: e.stored, times: e.times, noted: true, note: note{cron: e.cron}}
	m.at = at
	return m
}

// insert returns events with e in its place: behind those of the same time.
func insert(events []*event, e *event) []*event {
	i, _ := slices.BinarySearchFunc(events, e.at, func(o *event, at int64) int {
		if o.at <= at {
			return -1
		}
		return 1
	})
	return slices.Insert(slices.Clone(events), i, e)
}

func sizeOfEvents(events []*event) (n int) {
	for _, e := range events {
		n += e.size()
	}
	return n
}

// A noter has the notes of an actor.
type noter interface {
	Notes(ctx context.Context, prefix []byte) iter.Seq2[actorstore.Note, error]
}

// loadEvents returns the events of a record with what is noted about them, by time.
// Other programs need not have sorted them.
func loadEvents(ctx context.Context, from noter, list []stored, log *slog.Logger) ([]*event, error) {
	if len(list) == 0 {
		return nil, nil
	}
	events := make([]*event, len(list))
	byKey := make(map[string][]*event, len(list))
	for i := range list {
		events[i] = &event{stored: list[i]}
		key := string(noteKey(list[i].id))
		byKey[key] = append(byKey[key], events[i])
	}
	slices.SortStableFunc(events, func(a, b *event) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	for n, err := range from.Notes(ctx, []byte{actorstore.NamespacePersist}) {
		if err != nil {
			return nil, err
		}
		// A note without an event is of one that a program removed that doesn't know
		// notes. It means nothing, and is replaced when its key is used again.
		for _, e := range byKey[string(n.Key)] {
			e.take(n.Value, log)
		}
	}
	return events, nil
}

// take makes what is noted a part of e. An event whose note can't be used is parked: it
// would else be called as what it isn't, once instead of every day for instance.
func (e *event) take(value []byte, log *slog.Logger) {
	e.noted = true
	n, err := parseNote(value)
	if err == nil && n.cron.set() {
		e.times, err = n.cron.parse()
	}
	if e.note = n; err != nil {
		e.parked, e.problem = true, err.Error()
		log.Error("persist: an event can't be used", slog.String("event", e.id), slog.String("action", e.action), slog.Any("error", err))
	}
}

// errStays: an event that isn't there can't be moved.
var errStays = errors.New("persist: event is gone")
