package conn

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Tx is what one batch does to the connections of a Set: changes that are made, in memory
// and in the store, when the batch lands, or not at all. Until then only the Tx shows them.
// Two batches may change one connection: what a batch doesn't set stays as the other one
// left it.
//
// The methods that change something return batch.ErrSettled if the batch has landed or was
// given up, ErrClosed, and the errors of the actor. For a connection that is gone, or that
// the batch disconnects, they return ErrGone; the commit fails with it if the connection
// went meanwhile. Like its batch, a Tx is not safe for concurrent use.
type Tx struct {
	s      *Set
	b      *batch.Batch
	drafts []*draft // in the order of the first change

	// What follows belongs to the commit that is under way, and is guarded by the Set's lock.
	entry   batch.Entry
	changes []*change
	torn    batch.Captured[ID]
}

// participant is a Tx as its batch sees it.
type participant Tx

// A draft is what a batch makes of one connection: not the record as it will be, which isn't
// known before the commit, but what the batch has asked for.
type draft struct {
	c                *Conn
	state            []byte // nil: as it is
	events           []subscription
	created, leaving bool
}

type subscription struct {
	event string
	on    bool
}

// A change is what a commit makes of one connection. It exists while the commit is under way.
type change struct {
	c              *Conn
	rec            Record // as it will be
	created, leave bool
}

// Create makes a connection with a new id. It is found by the Set when the batch has landed,
// and is gone if the batch fails. Info's slices are not retained.
//
// Errors: ErrInfo, ErrValue, ErrTooLarge; ErrExists, from the commit as well, if a
// connection that hibernates has the gateway and request.
func (t *Tx) Create(info Info) (*Conn, error) {
	c := &Conn{set: t.s, ephemeral: info.Ephemeral, prior: batch.Absent, rec: Record{
		Gateway: info.Gateway, Request: info.Request, Path: info.Path,
		Headers: slices.Clone(info.Headers), Parameters: orUndefined(info.Parameters), State: orUndefined(info.State),
	}}
	if info.Path == "" && !info.Ephemeral {
		return nil, fmt.Errorf("%w: a connection that hibernates needs a path", ErrInfo)
	}
	if err := c.rec.Validate(); err != nil {
		return nil, err
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.begin(); err != nil {
		return nil, err
	}
	if err := t.s.free(c); err != nil {
		return nil, err
	}
	for _, d := range t.drafts {
		if d.created && !c.ephemeral && !d.c.ephemeral && d.c.request() == c.request() {
			return nil, exists(d.c)
		}
	}
	c.rec.ID = t.s.unusedID()
	if err := c.fits(&c.rec); err != nil {
		return nil, err
	}
	t.drafts = append(t.drafts, &draft{c: c, created: true})
	return c, nil
}

// SetState replaces the state of a connection by value, which is in CBOR (see Encode); nil
// means undefined. The slice is not retained. Errors: ErrValue, ErrTooLarge.
func (t *Tx) SetState(c *Conn, value []byte) error {
	value = orUndefined(value)
	if err := cbor.Valid(value); err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	return t.change(c, func(d *draft) { d.state = value })
}

// Subscribe adds an event to those of a connection, unless it is there already. Errors:
// ErrInfo for a name that isn't UTF-8, ErrTooLarge.
func (t *Tx) Subscribe(c *Conn, event string) error {
	if !utf8.ValidString(event) {
		return fmt.Errorf("%w: the event %.80q is not UTF-8", ErrInfo, event)
	}
	return t.change(c, func(d *draft) { d.events = append(d.events, subscription{event, true}) })
}

// Unsubscribe undoes Subscribe.
func (t *Tx) Unsubscribe(c *Conn, event string) error {
	return t.change(c, func(d *draft) { d.events = append(d.events, subscription{event, false}) })
}

// Disconnect removes a connection. The commit doesn't fail if another batch has removed it
// meanwhile.
func (t *Tx) Disconnect(c *Conn) error {
	return t.change(c, func(d *draft) { d.leaving = true })
}

// Get returns the connection with that id, also if the batch makes it. One that the batch
// disconnects is there until the batch has landed.
func (t *Tx) Get(id ID) (c *Conn, ok bool) {
	for _, d := range t.drafts {
		if d.c.rec.ID == id {
			return d.c, true
		}
	}
	return t.s.Get(id)
}

// Conns returns all connections, in the order of their ids: with those that the batch
// makes, and without those that it disconnects.
func (t *Tx) Conns() []*Conn {
	all := t.s.Conns()
	for _, d := range t.drafts {
		all = slices.DeleteFunc(all, func(c *Conn) bool { return c == d.c })
		if !d.leaving && !d.c.Gone() {
			i, _ := slices.BinarySearchFunc(all, d.c, byID)
			all = slices.Insert(all, i, d.c)
		}
	}
	return all
}

// State returns the state of a connection, in CBOR, as the batch leaves it. The slice must
// not be changed.
func (t *Tx) State(c *Conn) []byte {
	if d := t.draft(c); d != nil && d.state != nil {
		return d.state
	}
	return c.State()
}

// draft returns what the batch makes of c, nil for nothing. A batch changes few connections,
// so they are looked through.
func (t *Tx) draft(c *Conn) *draft {
	if i := slices.IndexFunc(t.drafts, func(d *draft) bool { return d.c == c }); i >= 0 {
		return t.drafts[i]
	}
	return nil
}

// change has fn change the draft of c, if what comes of it can be stored. fn gets a copy, so
// that nothing is staged when there is an error.
func (t *Tx) change(c *Conn, fn func(d *draft)) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if err := t.begin(); err != nil {
		return err
	}
	d := t.draft(c)
	if c.gone || d != nil && d.leaving {
		return fmt.Errorf("%w: %s", ErrGone, c.rec.ID)
	}
	next := draft{c: c}
	if d != nil {
		next = *d
	}
	fn(&next)
	if rec := next.apply(c.rec); !next.leaving {
		if err := c.fits(&rec); err != nil {
			return err
		}
	}
	if d == nil {
		d = new(draft)
		t.drafts = append(t.drafts, d)
	}
	*d = next
	return nil
}

// apply returns what the draft makes of rec. It never changes a slice of rec in place: Conn's
// methods have returned them.
func (d *draft) apply(rec Record) Record {
	if d.state != nil {
		rec.State = d.state
	}
	for _, s := range d.events {
		switch i := slices.Index(rec.Subscriptions, s.event); {
		case s.on && i < 0:
			rec.Subscriptions = append(slices.Clip(rec.Subscriptions), s.event)
		case !s.on && i >= 0:
			// None is nil, as in a record that was read.
			rec.Subscriptions = append(append([]string(nil), rec.Subscriptions[:i]...), rec.Subscriptions[i+1:]...)
		}
	}
	return rec
}

// begin says why nothing can be changed, and enlists the Tx again, so that Late is called once more if it was called already.
//
// +checklocks:t.s.mu
func (t *Tx) begin() error {
	if err := t.b.EnlistAgain(t.s, (*participant)(t)); err != nil {
		return err
	}
	return t.s.check()
}

// Late writes the records. It runs under the actor's commit lock, so that each is the
// connection's newest, whatever was staged before.
func (p *participant) Late(b *batch.Batch) error {
	t := (*Tx)(p)
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch first, open := t.entry.Enter(b, &s.gate); {
	case !open && len(t.drafts) == 0:
		return nil
	case !open:
		return ErrClosed
	case first:
		if err := s.actor.Err(); err != nil {
			return err
		}
		t.changes = make([]*change, 0, len(t.drafts))
		t.mend()
	}
	for _, d := range t.drafts {
		if err := t.stage(d); err != nil {
			return err
		}
	}
	return nil
}

// mend writes again the records of connections that an earlier batch has changed, if only a
// part of that has landed. Their priors are not known, so the store looks them up.
//
// +checklocks:t.s.mu
func (t *Tx) mend() {
	t.torn = t.s.torn.Capture()
	for _, id := range t.torn.Keys() {
		if c := t.s.conns[id]; c != nil {
			t.b.PutPrior(key(id), c.rec.Append(make([]byte, 0, c.rec.Size())), batch.PriorUnknown)
			c.prior = batch.PriorUnknown
		} else {
			t.b.Delete(key(id))
		}
	}
}

// stage adds a draft to what the commit does, and writes the record. A connection that
// several drafts change is written by each of them, and the last one counts: the store
// merges writes to one key.
//
// +checklocks:t.s.mu
func (t *Tx) stage(d *draft) error {
	c := d.c
	switch {
	case c.gone && d.leaving:
		return nil
	case c.gone:
		return fmt.Errorf("%w: %s", ErrGone, c.rec.ID)
	case d.created:
		if err := t.s.free(c); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(t.changes, func(ch *change) bool { return ch.c == c })
	if i < 0 {
		if rec := d.apply(c.rec); !d.created && !d.leaving && bytes.Equal(rec.State, c.rec.State) && slices.Equal(rec.Subscriptions, c.rec.Subscriptions) {
			return nil // it is as it was
		}
		i = len(t.changes)
		t.changes = append(t.changes, &change{c: c, rec: c.rec})
	}
	ch := t.changes[i]
	ch.rec, ch.created, ch.leave = d.apply(ch.rec), ch.created || d.created, ch.leave || d.leaving
	switch {
	case c.ephemeral:
	case !ch.leave:
		if err := c.fits(&ch.rec); err != nil {
			return err
		}
		t.b.PutPrior(key(c.rec.ID), ch.rec.Append(make([]byte, 0, ch.rec.Size())), c.prior)
	case !ch.created:
		t.b.DeletePrior(key(c.rec.ID), c.prior)
	}
	return nil
}

// Landed makes memory follow the store.
func (p *participant) Landed() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.torn.Clear(p.torn)
	for _, id := range p.torn.Keys() {
		if c := s.conns[id]; c != nil {
			c.prior = batch.Stored(c.rec.Size())
		}
	}
	for _, ch := range p.changes {
		s.install(ch)
	}
}

// Failed ends the connections that the batch was to make. If only a part of the batch has
// landed, it isn't known which records are stored: they are written again with the next
// batch that changes a connection.
func (p *participant) Failed(_ error, partly bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, d := range p.drafts {
		if d.created {
			d.c.gone, d.c.transport = true, nil
		}
	}
	for _, ch := range p.changes {
		if partly && !ch.c.ephemeral {
			ch.c.prior = batch.PriorUnknown
			p.s.torn.Mark(ch.c.rec.ID)
		}
	}
}
