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
var claimed sync.Map // of *actorstore.Actor

// claim makes a's database this one's, unless it is another one's already. A view, of
// no actor, there may be many of.
func claim(a *actorstore.Actor) error {
	if a == nil {
		return nil
	}
	if _, there := claimed.LoadOrStore(a, nil); there {
		return fmt.Errorf("%w: the database of actor %s, by another pool or VFS", ErrMounted, a.ID())
	}
	return nil
}

// unclaim takes claim back.
func unclaim(a *actorstore.Actor) { claimed.Delete(a) }
