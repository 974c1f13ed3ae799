package check

import (
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// A record is what the store's own rows say about one actor: the value of the row of each
// part, nil without the row.
type record struct {
	id    layout.ID
	parts [layout.Parts][]byte
}

// take keeps a copy of the row of a part.
func (r *record) take(part int64, row []byte) { r.parts[part] = append([]byte{}, row...) }

// empty reports whether no row was taken.
func (r *record) empty() bool {
	for _, row := range r.parts {
		if row != nil {
			return false
		}
	}
	return true
}

// headless reports whether the head is missing.
func (r *record) headless() bool { return r.parts[layout.PartHead] == nil }

// written says whether there is a head of an actor with a commit, or
// one that can't be read.
func (r *record) written() bool {
	h, err := layout.ParseHead(r.id, r.parts[layout.PartHead])
	return !r.headless() && (err != nil || h.Seq > 0)
}

// heads checks an actor's head, and the rows beside it.
type heads struct{ *walk }

// before checks what is looked at before the keys: the id, and the row that says which
// layout the keys have. It returns the layout by which to check them.
func (h heads) before(rec *record) (l uint8) {
	if rec.id == (layout.ID{}) {
		h.find(rec.id, "head", "it is that of the zero id, which names no actor")
	}
	row := rec.parts[layout.PartLayout]
	if row == nil {
		return 0
	}
	if rec.headless() {
		h.find(rec.id, "layout", "the actor has a layout and no head")
	}
	l, err := layout.ParseLayout(rec.id, row)
	if err != nil {
		h.find(rec.id, "layout", "%s", clause(err))
	}
	return l
}

// head checks the head against what the rows of the keys add up to.
func (h heads) head(rec *record, t tally) {
	find := func(format string, args ...any) { h.find(rec.id, "head", format, args...) }
	name := rec.parts[layout.PartName]
	head, err := layout.ParseHead(rec.id, rec.parts[layout.PartHead])
	switch {
	case rec.headless() && name != nil:
		find("it is missing; left of the actor are %d rows, the name %q", t.rows, name)
	case rec.headless() && t.rows > 0:
		find("it is missing; left of the actor are %d rows", t.rows)
	case rec.headless():
	case err != nil:
		find("%s", clause(err))
	case t.rows == 0 && head.Used != 0:
		find("it counts %d bytes used, and the actor has no keys", head.Used)
	case !t.damaged && head.Used != t.used:
		find("it counts %d bytes used, the keys use %d", head.Used, t.used)
	case head.Seq == 0 && head.Used > 0:
		h.tell(Finding{
			Actor: rec.id, Where: "head", Unfinished: true,
			What: fmt.Sprintf("a fork to this actor isn't complete; who opens the actor next removes its %d bytes", head.Used),
		})
	}
}

// owner checks the row that says which host has the actor, if any. That the host is gone is
// what its end leaves behind, and as good as no row.
func (h heads) owner(rec *record) {
	row := rec.parts[layout.PartOwner]
	if row == nil {
		return
	}
	if _, err := layout.ParseOwner(rec.id, row); err != nil {
		h.find(rec.id, "owner", "%s", clause(err))
	} else if rec.headless() {
		h.find(rec.id, "owner", "it is that of an actor without a head")
	}
}

// usage checks the row that says what the actor has used, if any.
func (h heads) usage(rec *record) {
	row := rec.parts[layout.PartUsage]
	if row == nil {
		return
	}
	if _, err := layout.ParseUsage(rec.id, row); err != nil {
		h.find(rec.id, "usage", "%s", clause(err))
	} else if !rec.written() {
		h.find(rec.id, "usage", "it is that of an actor that doesn't exist")
	}
}

// hints checks the hints, of which there is little to say: they are others'
// to read, and old ones are as good as new ones.
func (h heads) hints(rec *record) {
	row := rec.parts[layout.PartHints]
	switch {
	case row != nil && rec.headless():
		h.find(rec.id, "hints", "they are those of an actor without a head")
	case len(row) > h.MaxHints:
		h.find(rec.id, "hints", "they have %d bytes, at most are %d", len(row), h.MaxHints)
	}
}
