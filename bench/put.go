package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// putKeys is how many user keys an actor has, putValue the size of their values.
const (
	putKeys  = 64
	putValue = 100
)

// putJob is kv/put: a durable put of a new value under a user key that is there, each in
// its turn.
func putJob() job { return job{"kv/put", "put/s", 1, putKeys, beginPuts} }

// puts is an actor with user keys.
type puts struct {
	user  *actorstore.User
	keys  [putKeys][]byte
	next  int
	rnd   *rand.Rand
	value [putValue]byte
}

func beginPuts(ctx context.Context, a *actorstore.Actor, i int) (shift, error) {
	p := &puts{user: a.User(), rnd: newRand(uint64(i))}
	var b batch.Batch
	for k := range p.keys {
		p.keys[k] = fmt.Appendf(nil, "setting/%04d", k)
		b.Put(actorstore.AppendUserKey(nil, p.keys[k]), p.value[:])
	}
	return p, a.Apply(ctx, &b)
}

func (p *puts) work(ctx context.Context, more func() bool) error {
	return repeat(more, func() error { return p.put(ctx) })
}

func (p *puts) put(ctx context.Context) error {
	noise(p.rnd, p.value[:])
	key := p.keys[p.next]
	p.next = (p.next + 1) % len(p.keys)
	return p.user.Put(ctx, key, p.value[:])
}

func (p *puts) close() error { return nil }
