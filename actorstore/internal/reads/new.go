package reads

import "github.com/greenroomdb/greenroom/actorstore/internal/cache"

// New returns the Reads of a new handle. Without a cache, c is nil, nothing is kept.
func New(a Actor, c *cache.Cache) Reads {
	switch {
	case a.Engine.Limits().Far:
		return newFar(a, c)
	case c != nil:
		return newNear(a, c)
	}
	return &plain{Actor: a}
}
