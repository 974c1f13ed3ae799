package lease

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Read returns the row of a host, and its bytes as they are stored, with one Get. The error is
// kv.ErrNotFound if the host has gone. If the row is damaged, stored is not nil.
func Read(ctx context.Context, src kv.Reader, host [16]byte) (row layout.Host, stored []byte, err error) {
	if stored, err = src.Get(ctx, layout.HostKey(host), nil); err != nil {
		return layout.Host{}, nil, err
	}
	row, err = layout.ParseHost(host, stored)
	return row, stored, err
}

// swap puts the row next of a host in the place of old, in one durable commit. nil stands for a
// missing row. It is kv.ErrConflict if the row isn't old any more.
func swap(ctx context.Context, eng kv.Engine, host [16]byte, old, next []byte) error {
	key := layout.HostKey(host)
	op := kv.Clear(key)
	if next != nil {
		op = kv.Set(key, next)
	}
	return eng.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: key, Value: old, Absent: old == nil}},
		Ops:    []kv.Op{op},
	})
}
