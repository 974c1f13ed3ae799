package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// ReceiveOptions say which messages are received, and how. The zero value receives one
// message of any name, and waits for it without end.
type ReceiveOptions struct {
	// Names are the names to choose from; none means all.
	Names []string
	// Count is the largest number of messages for ReceiveAll; 0 means 1.
	Count int
	// Timeout is how long to wait, from the first time that the code comes here; 0 means
	// without end. Until is a time of day that ends the wait, and used without a Timeout.
	// A message that is there when the workflow looks is received, even if the time is over
	// by then.
	Timeout time.Duration
	Until   time.Time
	// Completable leaves the messages in the queue, invisible to others, until
	// Message.Complete; those that aren't completed when the workflow ends, or the iteration
	// or branch that received them, become visible again. Else a message leaves the queue
	// with the commit that records it.
	Completable bool
}

// A Message is a message of the actor's queue that a workflow has received.
type Message[T any] struct {
	ID      queue.ID
	Name    string
	Body    T
	Raw     queue.Raw // the body as it is stored; it must not be changed
	Created time.Time // when it was enqueued, to the millisecond

	d *delivery
}

// Receive waits for a message of any name, and returns it: recorded, and taken from the
// queue, by one commit. Errors: ErrPrevious; ErrTooLarge for a message that doesn't fit into
// the history, and stays in the queue; and those of decoding the body, which come with the
// message.
func Receive[T any](c *Context, name string) (*Message[T], error) {
	return ReceiveWith[T](c, name, nil)
}

// ReceiveWith is Receive with options; nil opts are the zero ReceiveOptions. When the time
// is over the error is ErrTimedOut.
func ReceiveWith[T any](c *Context, name string, opts *ReceiveOptions) (*Message[T], error) {
	o := ReceiveOptions{}
	if opts != nil {
		o = *opts
	}
	o.Count = 1
	ms, err := ReceiveAll[T](c, name, &o)
	if len(ms) == 0 {
		return nil, cmp.Or(err, ErrTimedOut)
	}
	return ms[0], err
}

// ReceiveAll is ReceiveWith of up to opts.Count messages: those that are there as soon as
// there is one. When the time is over it returns none, and no error.
func ReceiveAll[T any](c *Context, name string, opts *ReceiveOptions) ([]*Message[T], error) {
	ds, err := c.receive(name, opts)
	if err != nil {
		return nil, err
	}
	var ms []*Message[T]
	var errs []error
	for _, d := range ds {
		m := &Message[T]{ID: d.id, Name: d.data.Name, Raw: queue.Raw(d.data.Body), Created: time.UnixMilli(d.data.CreatedAt), d: d}
		if err := m.Raw.Decode(&m.Body); err != nil {
			errs = append(errs, fmt.Errorf("workflow: message %s: %w", m.ID, err))
		}
		ms = append(ms, m)
	}
	return ms, errors.Join(errs...)
}

// Complete removes a Completable message from the queue and gives the response, any value
// or a queue.Raw, to the caller that waits for it, with one commit. A second call is
// ErrCompleted; in a later run the first one does nothing. A response that can't be encoded
// is a *queue.InvalidError.
func (m *Message[T]) Complete(c *Context, response any) error { return c.complete(m.d, response) }

// A receiving is one call of receive.
type receiving struct {
	*place // of the number of messages
	name   string
	opts   ReceiveOptions
	// deadline is nil without one.
	deadline *place
	until    history.Sleep
}

func (c *Context) receive(name string, opts *ReceiveOptions) ([]*delivery, error) {
	c.leaveIfOver()
	if c.r.wf.opts.Queue == nil {
		c.misuse(name, "there is no Options.Queue")
	}
	v := &receiving{place: c.enter(subName(name, "count")), name: name}
	defer c.end()
	if opts != nil {
		v.opts = *opts
	}
	v.opts.Count = cmp.Or(v.opts.Count, 1)
	v.opts.Names = distinct(v.opts.Names)
	if v.opts.Count < 0 || v.opts.Timeout < 0 {
		c.misuse(name, fmt.Sprintf("it receives %d messages, for %v", v.opts.Count, v.opts.Timeout))
	}
	timed := v.opts.Timeout > 0 || !v.opts.Until.IsZero()
	if c.unfinished() {
		return nil, ErrPrevious
	}
	if _, found := lookup(c.r.wf.h, c.scope, subName(name, "deadline")); timed || found {
		v.deadline = c.mark(subName(name, "deadline"))
		v.until, _ = kind[history.Sleep](v.deadline)
	}
	if k, ok := kind[history.Message](v.place); ok {
		return v.replay(k)
	}
	if c.r.undoing != nil {
		c.stopCollecting()
	}
	if timed && !v.deadline.found {
		v.setDeadline()
	}
	return v.wait()
}

func distinct(names []string) (ds []string) {
	for _, n := range names {
		if !slices.Contains(ds, n) {
			ds = append(ds, n)
		}
	}
	return ds
}

// lookup finds what is recorded under a name, without registering it.
func lookup(h *history.History, scope history.Location, name string) (history.Entry, bool) {
	i, ok := h.Lookup(name)
	if !ok {
		return history.Entry{}, false
	}
	return h.Get(scope.Name(i))
}

// unfinished says whether a message waits to be completed that was received in the same
// strand.
func (c *Context) unfinished() bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for _, d := range c.r.open {
		if d.strand == c.strand() && !d.called {
			return true
		}
	}
	return false
}

// strand returns the context of the code or the branch that c is a part of.
func (c *Context) strand() *Context {
	for c.parent != nil && c.parent.life == c.life {
		c = c.parent
	}
	return c
}

func (v *receiving) setDeadline() {
	until := v.opts.Until
	if v.opts.Timeout > 0 {
		until = v.c.r.wf.clock.Now().Add(v.opts.Timeout)
	}
	v.until = history.Sleep{Deadline: history.MillisOf(until)}
	m := v.deadline.status()
	m.Status = history.StatusRunning
	v.deadline.must(v.deadline.record(v.until, m, atOnce))
}

// replay returns what was received in an earlier run.
func (v *receiving) replay(k history.Message) ([]*delivery, error) {
	var n int
	v.decode(cbor.Unmarshal(k.Data, &n), "number of messages", n)
	var ds []*delivery
	for i := range n {
		p := v.c.mark(subName(v.name, strconv.Itoa(i)))
		k, ok := kind[history.Message](p)
		if !ok {
			p.diverged("message %d of %d is missing in the history", i+1, n)
		}
		d := &delivery{at: p.at, name: k.Name, strand: v.c.strand()}
		if err := d.parse(k); err != nil {
			p.diverged("it is no message: %v", err)
		}
		ds = append(ds, d)
		v.c.r.opened(d)
	}
	return ds, nil
}

// path returns v in words: the place that v.place is of has the name of a part.
func (v *receiving) path() string {
	path := (&history.Snapshot{Names: []string{v.name}}).Path(history.Location("").Name(0))
	if v.c.scope != "" {
		path = v.c.r.wf.h.Path(v.c.scope) + "/" + path
	}
	return path
}

// wait waits for messages, or for the deadline.
func (v *receiving) wait() ([]*delivery, error) {
	for {
		ds, err := v.take()
		if err != nil || len(ds) > 0 {
			return ds, err
		}
		w := history.Wait{For: history.WaitMessage, Path: v.path(), Names: v.opts.Names}
		if v.deadline != nil {
			if w.Until = v.until.Deadline; w.Until <= v.c.r.wf.now() {
				v.timeOut()
				return nil, nil
			}
		}
		v.c.park(w, v.at)
	}
}

// take receives what is there, and records it with the same commit.
func (v *receiving) take() (ds []*delivery, err error) {
	for count := v.opts.Count; ; {
		var most tooMany
		if ds, err = v.takeUpTo(count); !errors.As(err, &most) {
			return ds, err
		}
		count = int(most)
	}
}

// A tooMany is how many messages fit into a commit where more were received.
type tooMany int

func (tooMany) Error() string { return "workflow: too many messages for one commit" }

// fits returns how many of the messages that b receives can be recorded with it, at least
// one: as many as the history has room for, with their number; and where a commit must be a
// single batch, of 128 keys and 976 KiB, as have room beside a backlog.
func (v *receiving) fits(b *batch.Batch, msgs []*queue.Message) int {
	const maxKeys, maxBytes = 48, 480 << 10
	w := v.c.r.wf
	if most := w.opts.MaxEntries; most > 0 {
		entries, _ := w.h.Usage()
		msgs = msgs[:max(1, min(len(msgs), most-entries-1))]
	}
	if !w.small {
		return len(msgs)
	}
	each := 3 + (b.Len()+len(msgs)-1)/len(msgs) // its name, entry and metadata, and the queue's
	bytes := 0
	for i, m := range msgs {
		if bytes += 2 * len(m.Body); i > 0 && ((i+1)*each > maxKeys || bytes > maxBytes) {
			return i
		}
	}
	return len(msgs)
}

func (v *receiving) takeUpTo(count int) (ds []*delivery, err error) {
	r := v.c.r
	tx := r.wf.h.Begin()
	err = v.c.commit(tx, func(b *batch.Batch) error {
		o := &queue.ReceiveOptions{Names: v.opts.Names, Count: count, AtMostOnce: !v.opts.Completable}
		if v.opts.Completable {
			o.Visibility = held // it is the history that has the message now
		}
		msgs, err := r.wf.opts.Queue.In(b).Receive(context.WithoutCancel(v.c.life), o)
		if err != nil {
			r.halt(storageError(err))
			leave()
		}
		if len(msgs) == 0 {
			return errNone
		}
		if n := v.fits(b, msgs); n < len(msgs) {
			return tooMany(n)
		}
		ds, err = v.put(tx, msgs)
		return err
	})
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err == nil {
		r.opened(ds...)
	}
	return ds, err
}

// held is the lease of a message that the history has: a hundred years.
const held = 100 * 365 * 24 * time.Hour

var errNone = errors.New("workflow: no message")

// put has tx record messages.
func (v *receiving) put(tx *history.Tx, msgs []*queue.Message) (ds []*delivery, err error) {
	v.c.guard(v.place, len(msgs)+1) // the history doesn't count what tx has
	for i, m := range msgs {
		d := &delivery{id: m.ID, name: m.Name, strand: v.c.strand(), data: messageData{
			Marker: 1, ID: m.ID.String(), Name: m.Name, Body: rawCBOR(m.Body), CreatedAt: m.Created.UnixMilli(),
			Completed: !v.opts.Completable,
		}}
		if v.opts.Completable {
			d.data.Deliveries = m.Deliveries
		}
		p := v.c.again(subName(v.name, strconv.Itoa(i)))
		d.at = p.at
		if err := d.put(p, tx); err != nil {
			return nil, err
		}
		ds = append(ds, d)
	}
	return ds, v.close(tx, len(msgs), history.SleepInterrupted)
}

// again is mark for a name that an earlier attempt at the same call may have marked.
func (c *Context) again(name string) *place {
	if i, ok := c.r.wf.h.Lookup(name); ok {
		c.seen.remove(i)
	}
	return c.mark(name)
}

// close has tx record how many messages were received, and what became of the deadline.
func (v *receiving) close(tx *history.Tx, n int, s history.SleepState) error {
	if v.deadline != nil {
		v.until.State = s
		if err := v.deadline.put(tx, v.until, v.deadline.completed()); err != nil {
			return err
		}
	}
	data, err := cbor.Marshal(n)
	if err != nil {
		return err
	}
	what := "*"
	if len(v.opts.Names) > 0 {
		what = strings.Join(v.opts.Names, "|")
	}
	return v.place.put(tx, history.Message{Name: subName(what, "count"), Data: data}, v.completed())
}

// timeOut records that no message came.
func (v *receiving) timeOut() {
	tx := v.c.r.wf.h.Begin()
	v.must(v.close(tx, 0, history.SleepCompleted))
	v.must(v.c.deferred(tx))
	v.c.r.draw() // another run might find a message
}

// Send puts a message into the actor's own queue, once, and returns its ID. Errors are
// those of a step that doesn't wait long for a full queue to have room.
func Send(c *Context, name string, s queue.Send) (queue.ID, error) {
	c.leaveIfOver()
	q := c.r.wf.opts.Queue
	if q == nil {
		c.misuse(name, "there is no Options.Queue")
	}
	return stepIn(c, name, &StepOptions{Unrecorded: true}, func(_ context.Context, b *batch.Batch) (queue.ID, error) {
		id, err := q.In(b).Enqueue(s)
		if errors.Is(err, queue.ErrClosed) || errors.Is(err, queue.ErrStale) {
			c.r.halt(storageError(err)) // which is not the fault of the workflow
		}
		return id, err
	})
}
