package actorstore

import (
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// ErrKept: a namespace of the handle has a keeper already.
var ErrKept = errkind.New("actorstore: namespace has a keeper", errkind.ErrInUse)

// Keep makes the caller the only writer of a namespace through this handle, among
// those that ask: two that keep what is stored there in memory would not see each
// other's changes. Nothing is enforced upon others. free, which may be called more than
// once, ends it; so does the end of the handle. Another keeper is ErrKept.
func (a *Actor) Keep(namespace byte) (free func(), err error) {
	if int(namespace) >= len(a.kept) {
		return nil, fmt.Errorf("actorstore: there is no namespace %d", namespace)
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	if a.kept[namespace].Swap(true) {
		return nil, fmt.Errorf("%w: %d of actor %s", ErrKept, namespace, a.id)
	}
	return sync.OnceFunc(func() { a.kept[namespace].Store(false) }), nil
}
