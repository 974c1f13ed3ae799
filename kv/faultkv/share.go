package faultkv

import (
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

var _ kv.Sharer = (*Engine)(nil)

// Unwrap returns the engine below.
func (e *Engine) Unwrap() kv.Engine { return e.below }

// Shared is kv.Sharer's: what the users of the engine below share, nil if it offers
// nothing to share.
func (e *Engine) Shared() *sync.Map { return kv.Shared(e.below) }
