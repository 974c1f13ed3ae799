package check

import (
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// names checks that an actor's name and the row that leads from the name to it agree.
type names struct{ *walk }

// of checks the name that an actor says it has, if any.
func (n names) of(rec *record) {
	if rec.parts[layout.PartName] == nil {
		return
	}
	name := string(rec.parts[layout.PartName])
	if err := n.Name(name); err != nil {
		n.find(rec.id, "name", "%s", clause(err))
		return
	}
	row, ok := n.get(layout.NameKey(name))
	if !ok {
		n.find(rec.id, "name", "it is %q, and no row leads from that to an actor", name)
		return
	}
	to, err := layout.ParseNamed(name, row)
	switch {
	case err != nil && n.Only != nil: // else the walk comes to that row
		n.find(rec.id, "name", "the row of %q: %s", name, clause(err))
	case err == nil && to.ID != rec.id:
		n.find(rec.id, "name", "it is %q, which leads to actor %s", name, to.ID)
	}
}

// row checks the row that leads from a name to an actor. Everything that is
// wrong between an actor and its own name is told there.
func (n names) row(name string, row []byte) {
	where := fmt.Sprintf("name %q", name)
	to, err := layout.ParseNamed(name, row)
	if bad := n.Name(name); bad != nil {
		err = bad
	}
	if err != nil {
		n.find(layout.ID{}, where, "%s", clause(err))
		return
	}
	_, head := n.get(layout.RecordKey(to.ID, layout.PartHead))
	has, named := n.get(layout.RecordKey(to.ID, layout.PartName))
	switch {
	case named && string(has) == name: // without a head the actor says so
	case !head:
		n.find(layout.ID{}, where, "it leads to actor %s, which has no head", to.ID)
	case !named:
		n.find(layout.ID{}, where, "it leads to actor %s, which has no name", to.ID)
	default:
		n.find(layout.ID{}, where, "it leads to actor %s, whose name is %q", to.ID, has)
	}
}
