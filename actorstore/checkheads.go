package actorstore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A trace is what the store's own rows say about one actor.
type trace struct {
	id   ID
	head []byte // the head row, nil without one
	name []byte // the head name's value, nil without one
	own  []byte // the owner row, nil without one
	hint []byte // the hints, nil when there are none
	laid []byte // the layout of the keys, nil when the record doesn't say one
	wake []byte // when the actor must be woken, nil when nothing wakes it
}

// part returns where a row of the actor's record goes.
func (t *trace) part(part int64) *[]byte {
	switch part {
	case layout.PartName:
		return &t.name
	case layout.PartOwner:
		return &t.own
	case layout.PartHints:
		return &t.hint
	case layout.PartLayout:
		return &t.laid
	case layout.PartWake:
		return &t.wake
	}
	return &t.head
}

// all walks the store. The heads and the rows of actors are both in the order of the
// ids, so they are read side by side.
func (c *checker) all() error {
	root := layout.AppendRoot(nil)
	if err := c.rows.open(c.ctx, c.src, prefixRange(root)); err != nil {
		return err
	}
	own := layout.AppendOwn(nil)
	var at trace
	for e, err := range c.src.Scan(c.ctx, prefixRange(own)) {
		if err == nil {
			err = c.ownRow(&at, e)
		}
		if err != nil {
			return err
		}
	}
	return c.rest(&at)
}

// rest checks the actor of which all own rows were there, and all that come after it.
func (c *checker) rest(at *trace) error {
	if err := c.actor(at); err != nil {
		return err
	}
	*at = trace{}
	return c.headless(nil)
}

// one walks one actor.
func (c *checker) one(id ID) error {
	c.single, c.format = true, true
	p := layout.NewPrefix(layout.ID(id))
	if err := c.rows.open(c.ctx, c.src, prefixRange(p[:])); err != nil {
		return err
	}
	at := trace{id: id}
	for e, err := range c.src.Scan(c.ctx, prefixRange(layout.RecordKey(layout.ID(id), layout.PartHead))) {
		if err == nil {
			err = c.ownRow(&at, e)
		}
		if err != nil {
			return err
		}
	}
	noted, err := c.anyNote(id)
	if err != nil {
		return err
	}
	if !c.rows.more && at.name == nil && !at.written() && !noted {
		return fmt.Errorf("actor %s: %w", id, ErrUnknownActor)
	}
	if err := c.actor(&at); err != nil {
		return err
	}
	return c.notesOf(id)
}

// prefixRange returns the range of all keys that begin with p.
func prefixRange(p []byte) kv.Range { return kv.Range{Start: p, End: layout.Successor(p)} }

// written says whether there is a head of an actor with a commit, or
// one that can't be read.
func (t *trace) written() bool {
	if t.head == nil {
		return false
	}
	h, err := layout.ParseHead(layout.ID(t.id), t.head)
	return err != nil || h.Seq > 0
}

// ownRow takes the next row of the store's own. What follows the rows of one actor
// ends it.
func (c *checker) ownRow(at *trace, e kv.Entry) error {
	if bytes.Equal(e.Key, layout.FormatKey()) {
		c.format = true
		if err := layout.CheckFormat(e.Value); err != nil {
			return c.find(ID{}, "format", "%s", clause(err))
		}
		return nil
	}
	if err := c.formatted(); err != nil {
		return err
	}
	of, part, ok := layout.ParseRecordKey(e.Key)
	id := ID(of)
	if !bytes.HasPrefix(e.Key, layout.AppendRows(nil, layout.KindHead)) {
		id, ok = ID{}, false
	}
	if ok {
		if id != at.id {
			if err := c.actor(at); err != nil {
				return err
			}
			*at = trace{id: id}
		}
		*at.part(part) = append([]byte{}, e.Value...)
		return nil
	}
	if name, ok := layout.ParseNameKey(e.Key); ok && bytes.HasPrefix(e.Key, layout.AppendRows(nil, layout.KindName)) {
		if err := c.rest(at); err != nil {
			return err
		}
		return c.nameRow(name, e.Value)
	}
	if id, ok := layout.ParseHostKey(e.Key); ok && bytes.HasPrefix(e.Key, layout.AppendRows(nil, layout.KindHost)) {
		if err := c.rest(at); err != nil {
			return err
		}
		return c.hostRow(id, e.Value)
	}
	if id, key, ok := layout.ParseNoteKey(e.Key); ok && bytes.HasPrefix(e.Key, layout.AppendRows(nil, layout.KindNote)) {
		if err := c.rest(at); err != nil {
			return err
		}
		return c.note(ID(id), key, e.Value)
	}
	if _, _, err := layout.ParseWakeKey(e.Key); err == nil && bytes.HasPrefix(e.Key, layout.AppendRows(nil, layout.KindWake)) {
		if err := c.rest(at); err != nil {
			return err
		}
		return c.waking(e)
	}
	return c.find(id, rowWords(e.Key), "the store has no row of this kind")
}

// formatted reports once that there are rows and no format row, which is the first.
func (c *checker) formatted() error {
	if c.format {
		return nil
	}
	c.format = true
	return c.find(ID{}, "format", "the row is missing")
}

// actor checks the actor of which all own rows were there, if any, and those before
// it that have rows and no head.
func (c *checker) actor(at *trace) error {
	if at.head == nil && at.name == nil && at.own == nil && at.hint == nil && at.laid == nil && at.wake == nil && !c.single {
		return nil // before the first
	}
	p := layout.NewPrefix(layout.ID(at.id))
	if err := c.headless(p[:]); err != nil {
		return err
	}
	if at.id.IsZero() {
		if err := c.find(ID{}, "head", "it is that of the zero id, which names no actor"); err != nil {
			return err
		}
	}
	if err := checkLayout(c, at); err != nil {
		return err
	}
	t, err := c.walkRows(at.id, &p)
	if err != nil {
		return err
	}
	if err := c.head(at, t); err != nil {
		return err
	}
	if err := c.owner(at); err != nil {
		return err
	}
	if err := c.hints(at); err != nil {
		return err
	}
	if err := c.wake(at); err != nil {
		return err
	}
	if at.name == nil {
		return nil
	}
	return c.headName(at)
}

// checkLayout checks the row that says which layout the keys of an actor have. c checks the keys by it.
func checkLayout(c *checker, at *trace) (err error) {
	c.layout = LayoutGreenroom
	if at.laid == nil {
		return nil
	}
	if at.head == nil {
		err = c.find(at.id, "layout", "the actor has a layout and no head")
	}
	if err != nil {
		return err
	}
	l, err := layout.ParseLayout(layout.ID(at.id), at.laid)
	if err != nil {
		return c.find(at.id, "layout", "%s", clause(err))
	}
	c.layout = Layout(l)
	return nil
}

// hints checks the hints of an actor, of which there is little to say: they are others'
// to read, and old ones are as good as new ones.
func (c *checker) hints(at *trace) error {
	switch {
	case at.hint != nil && at.head == nil:
		return c.find(at.id, "hints", "they are those of an actor without a head")
	case len(at.hint) > MaxHints:
		return c.find(at.id, "hints", "they have %d bytes, at most are %d", len(at.hint), MaxHints)
	}
	return nil
}

// headless checks the actors of which there are rows below the bound, nil for all,
// and no head.
func (c *checker) headless(bound []byte) error {
	for c.rows.more && (bound == nil || bytes.Compare(c.rows.head.Key, bound) < 0) {
		if err := c.formatted(); err != nil {
			return err
		}
		id, ok := layout.ActorOf(c.rows.head.Key)
		if !ok {
			if err := c.unowned(bound); err != nil {
				return err
			}
			continue
		}
		p := layout.NewPrefix(id)
		c.layout = LayoutGreenroom
		t, err := c.walkRows(ID(id), &p)
		if err == nil {
			err = c.head(&trace{id: ID(id)}, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unowned reports the run of rows below the bound that belong to no actor.
func (c *checker) unowned(bound []byte) error {
	first, n := bytes.Clone(c.rows.head.Key), 0
	for c.rows.more && (bound == nil || bytes.Compare(c.rows.head.Key, bound) < 0) {
		if _, ok := layout.ActorOf(c.rows.head.Key); ok {
			break
		}
		n++
		if err := c.rows.advance(); err != nil {
			return err
		}
	}
	return c.find(ID{}, rowWords(first), "its key belongs to no actor%s", andMore(n-1))
}

// head checks an actor's head against what its rows add up to.
func (c *checker) head(at *trace, t tally) error {
	if at.head == nil {
		if t.rows == 0 && at.name == nil {
			return nil
		}
		name := ""
		if at.name != nil {
			name = fmt.Sprintf(", the name %q", at.name)
		}
		return c.find(at.id, "head", "it is missing; left of the actor are %d rows%s", t.rows, name)
	}
	h, err := layout.ParseHead(layout.ID(at.id), at.head)
	switch {
	case err != nil:
		return c.find(at.id, "head", "%s", clause(err))
	case t.rows == 0 && h.Used != 0:
		return c.find(at.id, "head", "it counts %d bytes used, and the actor has no keys", h.Used)
	case !t.damaged && h.Used != t.used:
		return c.find(at.id, "head", "it counts %d bytes used, the keys use %d", h.Used, t.used)
	case h.Seq == 0 && h.Used > 0:
		return c.yieldOne(Finding{
			Actor: at.id, Where: "head", Harmless: true, Unfinished: true,
			What: fmt.Sprintf("a fork to this actor isn't complete; who opens the actor next removes its %d bytes", h.Used),
		})
	}
	return nil
}

// headName checks the name that an actor says it has.
func (c *checker) headName(at *trace) error {
	name := string(at.name)
	if err := checkName(name); err != nil {
		return c.find(at.id, "name", "%s", clause(err))
	}
	n, err := loadNamed(c.ctx, c.src, name)
	switch {
	case errors.Is(err, ErrUnknownActor):
		return c.find(at.id, "name", "it is %q, and no row leads from that to an actor", name)
	case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNewerFormat):
		if c.single { // else the walk comes to that row
			return c.find(at.id, "name", "the row of %q: %s", name, clause(err))
		}
		return nil
	case err != nil:
		return err
	case ID(n.ID) != at.id:
		return c.find(at.id, "name", "it is %q, which leads to actor %s", name, n.ID)
	}
	return nil
}

// nameRow checks the row that leads from a name to an actor. Everything that is
// wrong between an actor and its own name is told there.
func (c *checker) nameRow(name string, row []byte) error {
	where := fmt.Sprintf("name %q", name)
	if err := checkName(name); err != nil {
		return c.find(ID{}, where, "%s", clause(err))
	}
	n, err := layout.ParseNamed(name, row)
	if err != nil {
		return c.find(ID{}, where, "%s", clause(err))
	}
	_, head, err := c.get(layout.RecordKey(n.ID, layout.PartHead))
	if err != nil {
		return err
	}
	has, named, err := c.get(layout.RecordKey(n.ID, layout.PartName))
	switch {
	case err != nil:
		return err
	case named && string(has) == name:
		return nil // without a head the actor says so
	case !head:
		return c.find(ID{}, where, "it leads to actor %s, which has no head", n.ID)
	case !named:
		return c.find(ID{}, where, "it leads to actor %s, which has no name", n.ID)
	}
	return c.find(ID{}, where, "it leads to actor %s, whose name is %q", n.ID, has)
}

// get reads a row of the store's own, and says whether it is there.
func (c *checker) get(key []byte) (row []byte, ok bool, err error) {
	row, err = c.src.Get(c.ctx, key, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, false, nil
	}
	return row, err == nil, err
}

// clause says why a row can't be read, without what the finding says already.
func clause(err error) string {
	var newer *FormatError
	if errors.As(err, &newer) {
		return fmt.Sprintf("it is of version %d, known are versions up to %d", newer.Found, newer.Known)
	}
	if errors.Is(err, ErrCorrupt) {
		// What the row is, and that it is damaged, frame the reason.
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			return "it can't be read: " + all.Unwrap()[0].Error()
		}
		return "it can't be read: " + strings.TrimSuffix(err.Error(), ": "+ErrCorrupt.Error())
	}
	return "it can't be used: " + err.Error()
}
