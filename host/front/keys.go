package front

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// The fronts of a store share one row beside those of its actors.
//
// Key layout:
//
//	("greenroom.front", 1, 1)          v1: the secret that tokens of connections are made
//	                                   with: data[32]
//
// It is written once. Removing it makes all clients connect anew.
var secretKey = tuple.NewSubspace(tuple.Tuple{"greenroom.front", int64(1)}).Pack(tuple.Tuple{int64(1)})

const (
	secretVersion = 1
	secretSize    = 32
)

// StoredSecret returns the secret of a store's connections, for Options.Secret. The first
// one to ask makes it. It is durable when StoredSecret returns, so that clients find their
// connections again after a restart, and at another host of the store. In an empty engine it
// makes the store.
//
// Errors: ErrSecret for a row that isn't a secret, kv.ErrNotAStore for an engine that holds
// something else, and those of the engine.
func StoredSecret(ctx context.Context, engine kv.Engine) ([]byte, error) {
	if err := actorstore.Make(ctx, engine); err != nil {
		return nil, fmt.Errorf("front: secret: %w", err)
	}
	row, err := engine.Get(ctx, secretKey, nil)
	if errors.Is(err, kv.ErrNotFound) {
		secret := make([]byte, secretSize)
		_, _ = rand.Read(secret) // it never fails
		row = bare.AppendFixed(bare.AppendVersion(nil, secretVersion), secret)
		err = engine.Commit(ctx, &kv.Commit{
			Checks: []kv.Check{{Key: secretKey, Absent: true}},
			Ops:    []kv.Op{kv.Set(secretKey, row)},
		})
		if errors.Is(err, kv.ErrConflict) { // another host was first
			row, err = engine.Get(ctx, secretKey, nil)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("front: secret: %w", err)
	}
	return parseSecret(row)
}

func parseSecret(row []byte) ([]byte, error) {
	v, rest, err := bare.Version(row)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrSecret, kv.ErrCorrupt, err)
	}
	if v != secretVersion {
		return nil, fmt.Errorf("%w: %w: version %d", ErrSecret, kv.ErrNewerFormat, v)
	}
	rd := bare.NewReader(rest)
	secret := append([]byte(nil), rd.Fixed(secretSize)...)
	if err := rd.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrSecret, kv.ErrCorrupt, err)
	}
	return secret, nil
}
