package actorstore

import "github.com/greenroomdb/greenroom/actorstore/internal/layout"

// owner checks the row that says which host has an actor. That the host is gone is what
// its end leaves behind, and as good as no row.
func (c *checker) owner(at *trace) error {
	if at.own == nil {
		return nil
	}
	if _, err := layout.ParseOwner(layout.ID(at.id), at.own); err != nil {
		return c.find(at.id, "owner", "%s", clause(err))
	}
	if at.head == nil {
		return c.find(at.id, "owner", "it is that of an actor without a head")
	}
	return nil
}

// hostRow checks the row of a host. One that died is what a crash leaves behind, until
// a host wants one of its actors.
func (c *checker) hostRow(id HostID, row []byte) error {
	if _, err := layout.ParseHost(id, row); err != nil {
		return c.find(ID{}, "host "+id.String(), "%s", clause(err))
	}
	return nil
}
