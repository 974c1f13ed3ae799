// Package check walks what a store of actors has stored, and says what is wrong with it:
// the integrity check of package actorstore, which programs use. It reads rows with package
// layout, changes nothing, and needs memory that doesn't depend on what is stored. What
// the keys and values of actors mean is for others to say.
package check

// Files, from the top down:
//
//	check.go actors.go names.go wakes.go index.go notes.go heads.go rows.go survey.go walk.go

import (
	"bytes"
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Run calls yield with each finding in a state, until yield returns false. An error is the
// engine's, or wraps Unknown.
func Run(ctx context.Context, s *State, yield func(Finding) bool) error {
	w := &walk{State: s, ctx: ctx, yield: yield}
	if s.Only != nil {
		one(w, *s.Only)
	} else {
		all(w)
	}
	if w.err == errStopped {
		return nil
	}
	return w.err
}

// all checks a store. The heads and the rows of actors are both in the order of the ids, so
// they are read side by side.
func all(w *walk) {
	k := newKeys(w, layout.AppendRoot(nil))
	defer k.stop()
	o := own{actors: actors{walk: w, keys: k}, notes: notes{walk: w}}
	w.scan(prefixRange(layout.AppendOwn(nil)), o.row)
	o.rest()
}

// one checks one actor.
func one(w *walk, id layout.ID) {
	p := layout.NewPrefix(id)
	k := newKeys(w, p[:])
	defer k.stop()
	rec := record{id: id}
	w.scan(prefixRange(layout.RecordKey(id, layout.PartHead)), func(e kv.Entry) {
		if id, part, ok := layout.ParseRecordKey(e.Key); ok {
			rec.take(part, e.Value)
		} else {
			w.unknown(id, e.Key)
		}
	})
	n := notes{walk: w}
	if !n.any(id) && !k.more && rec.parts[layout.PartName] == nil && !rec.written() {
		w.fail(fmt.Errorf("actor %s: %w", id, w.Unknown))
	}
	a := actors{walk: w, keys: k}
	a.check(&rec, &p)
	n.of(id)
}

// own checks the store's own rows, in ascending order.
type own struct {
	actors
	notes notes
	at    record // of the actor whose rows are being read
}

// row takes the next row. What follows the rows of one actor ends it.
func (o *own) row(e kv.Entry) {
	if bytes.Equal(e.Key, layout.FormatKey()) {
		o.format(e.Value)
		return
	}
	o.formatted()
	if bytes.Equal(e.Key, layout.BuiltKey()) {
		o.rest()
		if _, err := layout.ParseBuilt(e.Value); err != nil {
			o.find(layout.ID{}, "index", "%s", clause(err))
		}
		return
	}
	kind := uint64(layout.KindHead)
	for kind <= layout.KindIndex && !bytes.HasPrefix(e.Key, layout.AppendRows(nil, kind)) {
		kind++
	}
	var whose layout.ID
	switch kind {
	case layout.KindHead:
		id, part, ok := layout.ParseRecordKey(e.Key)
		if ok {
			if id != o.at.id {
				o.end()
				o.at = record{id: id}
			}
			o.at.take(part, e.Value)
			return
		}
		whose = id
	case layout.KindName:
		if name, ok := layout.ParseNameKey(e.Key); ok {
			o.rest()
			names{o.walk}.row(name, e.Value)
			return
		}
	case layout.KindHost:
		if host, ok := layout.ParseHostKey(e.Key); ok {
			o.rest()
			// That a host died is what a crash leaves behind, until a host wants one of its actors.
			if _, err := layout.ParseHost(host, e.Value); err != nil {
				o.find(layout.ID{}, fmt.Sprintf("host %x", host), "%s", clause(err))
			}
			return
		}
	case layout.KindNote:
		if id, key, ok := layout.ParseNoteKey(e.Key); ok {
			o.rest()
			o.notes.row(id, key, e.Value)
			return
		}
	case layout.KindIndex:
		if row, err := layout.ParseIndexKey(e.Key); err == nil {
			o.rest()
			index{o.walk}.row(row, e)
			return
		}
	case layout.KindWake:
		if _, id, err := layout.ParseWakeKey(e.Key); err == nil {
			o.rest()
			wakes{o.walk}.row(id, e)
			return
		}
	}
	o.unknown(whose, e.Key)
}

// end checks the actor of which all own rows were there, if any, and those before it that
// have rows and no head.
func (o *own) end() {
	if o.at.empty() {
		return // before the first
	}
	p := layout.NewPrefix(o.at.id)
	o.headless(p[:])
	o.check(&o.at, &p)
}

// rest checks that actor, and all that come after it.
func (o *own) rest() {
	o.end()
	o.at = record{}
	o.headless(nil)
}
