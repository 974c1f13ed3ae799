package check

import (
	"bytes"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// actors checks actors as a whole, in the order of their ids.
type actors struct {
	*walk
	keys *keys
	told bool // the format row was seen, or reported missing
}

// format checks the row of the store's format, which is the first of all.
func (a *actors) format(row []byte) {
	a.told = true
	if err := layout.CheckFormat(row); err != nil {
		a.find(layout.ID{}, "format", "%s", clause(err))
	}
}

// formatted reports once that there are rows and no format row.
func (a *actors) formatted() {
	if !a.told {
		a.told = true
		a.find(layout.ID{}, "format", "the row is missing")
	}
}

// check checks the actor with the record, the rows of whose keys come next.
func (a *actors) check(rec *record, p *layout.Prefix) {
	h := heads{a.walk}
	l := h.before(rec)
	h.head(rec, a.keys.of(rec.id, p, l))
	h.owner(rec)
	h.hints(rec)
	h.usage(rec)
	wakes{a.walk}.of(rec)
	index{a.walk}.of(rec)
	names{a.walk}.of(rec)
}

// headless checks the actors of which there are rows below the bound, nil for all,
// and no head.
func (a *actors) headless(bound []byte) {
	below := func() bool {
		return a.keys.more && a.err == nil && (bound == nil || bytes.Compare(a.keys.next.Key, bound) < 0)
	}
	for below() {
		a.formatted()
		if id, ok := layout.ActorOf(a.keys.next.Key); ok {
			p := layout.NewPrefix(id)
			heads{a.walk}.head(&record{id: id}, a.keys.of(id, &p, 0))
		} else {
			a.keys.unowned(below)
		}
	}
}
