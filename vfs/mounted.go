package vfs

import (
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
)

// An actor's database is in one place of the process. Two of them would not see each
// other's locks, and each would write over what the other one has in memory. An actor
// has one handle, which its owner passes around; so the handle is what is claimed.

// claimed are the actors whose database is mounted. It is process-wide because two
// pools are two VFSes.
var claimed struct {
	sync.Mutex
	actors map[*actorstore.Actor]bool // +checklocks:Mutex
}

// claim makes a's database this one's, unless it is another one's already. A view, of
// no actor, there may be many of.
func claim(a *actorstore.Actor) error {
	if a == nil {
		return nil
	}
	claimed.Lock()
	defer claimed.Unlock()
	if claimed.actors[a] {
		return fmt.Errorf("%w: the database of actor %s, by another pool or VFS", ErrMounted, a.ID())
	}
	if claimed.actors == nil {
		claimed.actors = map[*actorstore.Actor]bool{}
	}
	claimed.actors[a] = true
	return nil
}

// unclaim takes claim back.
func unclaim(a *actorstore.Actor) {
	claimed.Lock()
	defer claimed.Unlock()
	delete(claimed.actors, a)
}
