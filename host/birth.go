package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/kv"
)

// A birth is what an actor is created with.
type birth struct {
	input      Raw
	generation uint32         // of the letter that creates it, 0 for none
	in         kv.Incarnation // in which the letter is durable
	asked      bool           // for by Host.Create
}

// like says whether Type.Create would be told the same by b as by o.
func (b *birth) like(o *birth) bool { return o != nil && bytes.Equal(b.input, o.input) }

// A creation makes an actor that doesn't exist. The actor's record, with its input, lands in
// one commit with what Type.Create does and a note that it was done. If Type.Create fails, or
// anything before it, nothing stays.
//
// Parts of the actor may land before that commit: pages of a database that is larger than a
// commit, spans, what Type.Create does to the workflow. So where there may be such parts a
// note that the actor is being created lands before everything else. A stay in memory that
// finds this note removes the actor: a host that was killed has left it.
type creation struct {
	life    *life
	existed bool // something had been written to the actor before it woke
	unborn  bool // it is being created: what is stored of it is this stay's
	noted   bool // and a note says so
	done    bool // a note says that Create has landed
}

// take takes the actor over and opens its record. Before that it removes what is left of a
// creation that was cut off.
func (m *creation) take() error {
	l := m.life
	for {
		door, err := m.open()
		if errors.Is(err, actorstore.ErrUnknownActor) {
			return ErrNoActor
		}
		if err != nil {
			return err
		}
		l.host.mu.Lock() // nested reads it there
		l.door = door
		l.host.mu.Unlock()
		l.actor, l.clock = door.Lower(), door.Clock()
		m.existed = l.actor.Seq() > 0
		m.unborn = !m.existed && l.birth != nil
		if l.record, err = door.Record(l.ctx); err != nil {
			return err
		}
		if !m.existed || l.kind.Create == nil && l.record.Stored() {
			return nil
		}
		note, err := m.note()
		if err != nil || !bytes.Equal(note, noteBegun) {
			m.done = note != nil
			return err
		}
		if err := door.Drop(context.WithoutCancel(l.ctx)); err != nil {
			return fmt.Errorf("host: remove what the creation of %s has left: %w", l.name, err)
		}
	}
}

// note returns the value of the note, nil without a note.
func (m *creation) note() (value []byte, err error) {
	snap, err := m.life.actor.Snapshot(m.life.ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	return creationNote(m.life.ctx, snap)
}

// begin notes that the actor is being created, if parts of it may land before its record.
func (m *creation) begin() error {
	l := m.life
	if !m.unborn || l.kind.Create == nil && l.host.opts.Traces == nil {
		return nil
	}
	m.noted = true
	return m.land(noteBegun, func(*batch.Batch) error { return nil })
}

// end makes the actor exist, if it doesn't.
func (m *creation) end() error {
	l := m.life
	if l.kind.Create == nil {
		if l.record.Stored() {
			return nil
		}
		return m.land(nil, m.stage)
	}
	if m.done {
		return nil
	}
	return l.course.runFirst(spanOnCreate, m.create)
}

// create is the actor's first turn.
func (m *creation) create(c *Context) error {
	l := m.life
	if err := (schema{l}).run(c); err != nil {
		return err
	}
	if err := l.kind.Create(c); err != nil {
		return err
	}
	if c.destroy {
		return nil // it is to be removed, and has never been there
	}
	if err := m.stage(c.Batch()); err != nil {
		return err
	}
	return l.actor.StageNote(c.Batch(), []byte(noteCreated), noteDone)
}

// land commits what stage stages, with the note. What lands first for an actor that a letter
// creates also says of which generation it is.
func (m *creation) land(note []byte, stage func(b *batch.Batch) error) error {
	l := m.life
	var b batch.Batch
	if err := stage(&b); err != nil {
		return err
	}
	if note != nil || m.noted {
		if err := l.actor.StageNote(&b, []byte(noteCreated), note); err != nil {
			return err
		}
	}
	if bytes.Equal(note, noteBegun) { // a host that starts removes what is left
		b.WakeBy(time.Time{})
	}
	var in kv.Incarnation
	if m.unborn && l.birth.generation > 0 && l.out.account == nil {
		a := newAccount()
		a.Generation = l.birth.generation
		b.Put(mailrow.AccountKey(), a.Append(nil))
		b.OnCommit(func() { l.out.account = a })
		in = l.birth.in
	}
	return l.actor.ApplyIn(l.ctx, &b, in)
}

// stage puts the actor's record into b, unless it is stored: that creates the actor.
func (m *creation) stage(b *batch.Batch) error {
	if !m.life.record.Stored() {
		tx := m.life.record.In(b)
		state, err := tx.RawState()
		if err != nil {
			return err
		}
		if err := tx.SetRawState(state); err != nil { // which writes a record that isn't there
			return err
		}
	}
	b.OnCommit(func() { m.unborn = false })
	return nil
}

// undo removes what is stored of an actor whose creation has failed, and says whether that
// was done. The actor's parts are closed then.
func (m *creation) undo() bool {
	l := m.life
	if !m.unborn || l.actor.Err() != nil {
		return false
	}
	l.course.shutLost()
	l.gate.wait()
	if err := l.door.Drop(context.WithoutCancel(l.ctx)); err != nil {
		l.report("remove an actor that was not created", err)
		return false
	}
	l.host.alarms.Forget(l.name)
	return true
}

// open takes the actor, unless its database is of a newer version of the program.
func (m *creation) open() (*greenroom.Actor, error) {
	l := m.life
	o := m.options()
	if o.MaxSchema = l.kind.Migrations.Latest(); o.MaxSchema == 0 {
		o.MaxSchema = actorstore.NoSchema
	}
	door, err := l.host.door.Actor(l.ctx, l.name, o)
	if len(l.kind.Migrations) > 0 || !errors.Is(err, greenroom.ErrNewerSchema) {
		return door, err
	}
	versioned, rerr := versionedType(l.ctx, l.host.engine, l.kind.Name)
	if rerr != nil {
		return nil, rerr
	}
	if versioned {
		return nil, err
	}
	o.MaxSchema = 0 // the version is the program's own
	return l.host.door.Actor(l.ctx, l.name, o)
}

// options returns those of the actor. The gate waits until what turns have written is on
// stable storage, so that its database doesn't.
func (m *creation) options() *greenroom.ActorOptions {
	l := m.life
	db := l.kind.DB
	db.Pragmas = append(slices.Clone(db.Pragmas), "synchronous=NORMAL")
	o := &greenroom.ActorOptions{
		MustExist: l.birth == nil, DB: &db, Queue: &l.kind.Queue, Traces: l.host.opts.Traces,
	}
	if l.birth != nil {
		o.Input = l.birth.input
	}
	return o
}
