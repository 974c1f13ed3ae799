package actorstore

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
)

// An engine that outlives its server (kv.Incarnation) may have lost the newest commits of
// an actor, those that were only applied, or, if the server that took over knows less,
// even others. The handle's memory is ahead of the store then: of what it answers, too. So
// each handle notes in which incarnation it has last found its own head in the store.
// In another one it answers nothing before it has found it again: the head has the number
// of the handle's last commit, and what is stored is always a prefix of what was applied.

// An incarnation is the one of the engine in which an actor's newest commit is known to
// be stored.
type incarnation struct {
	now atomic.Uint64
	mu  sync.Mutex // held while now and the handle's newest commit change together
}

func (i *incarnation) of() kv.Incarnation { return kv.Incarnation(i.now.Load()) }

// landed notes that a commit has landed, which was sent in the incarnation in, and has it
// shown to readers: no survey of the state before it counts for it.
func (i *incarnation) landed(in kv.Incarnation, show func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now.Store(uint64(in))
	if show != nil {
		show()
	}
}

// surveyed notes that the newest commit is stored, if it is still the same.
func (i *incarnation) surveyed(in kv.Incarnation, same func() bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !same() {
		return false
	}
	i.now.Store(uint64(in))
	return true
}

// errLost says that commits were lost with the engine's server.
func errLost(why error) error {
	return fmt.Errorf("%w: commits were lost with the engine's server: %w", kv.ErrUnknownOutcome, why)
}
