package actorstore

import (
	"sync"

	"github.com/greenroomdb/greenroom/batch"
)

// A single is a batch of one write, used again for others, and the memory that a key can
// be put together in.
type single struct {
	batch batch.Batch
	key   []byte
}

// singles keeps those that aren't in use.
type singles struct{ pool sync.Pool }

func (s *singles) take() *single {
	if one, ok := s.pool.Get().(*single); ok {
		return one
	}
	return new(single)
}
