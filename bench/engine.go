package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// Engines that a subject can stand on.
const (
	enginePebble   = "pebble"
	engineMem      = "mem"
	enginePostgres = "postgres"
)

// storeFolder is where in its folder a site has a store on Pebble.
const storeFolder = "store"

// leanCache and leanMemtable are Pebble's memory where that of many actors is counted: so
// little that whether it is full makes no difference.
const (
	leanCache    = 4 << 20
	leanMemtable = 4 << 20
)

// openEngine opens the engine of a site, with the options that a program gets when it
// asks for none. What a site holds is there when its engine is opened again, but for
// the memory engine.
func openEngine(ctx context.Context, at site) (kv.Engine, error) {
	engine, err := openNear(ctx, at)
	if err != nil || !at.far {
		return engine, err
	}
	return putAway(engine, at.trip), nil
}

func openNear(ctx context.Context, at site) (kv.Engine, error) {
	switch at.engine {
	case enginePebble:
		opts := &pebblekv.Options{Metrics: at.fsyncs.sink()}
		if at.lean {
			opts.CacheBytes, opts.MemtableBytes = leanCache, leanMemtable
		}
		return opened(pebblekv.Open(filepath.Join(at.dir, storeFolder), opts))
	case engineMem:
		return memkv.New(), nil
	case enginePostgres:
		return opened(pgkv.Open(ctx, at.url, nil))
	}
	return nil, fmt.Errorf("no engine is called %q", at.engine)
}

// opened keeps a nil pointer from becoming an Engine that isn't nil.
func opened[E kv.Engine](e E, err error) (kv.Engine, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

// dropTimeout is how long removing a store from a server may take. It is done after an
// interrupt as well.
const dropTimeout = 30 * time.Second

// dropStore removes what is not below the folder of a site: its store on a server, if
// one was made there. Nobody may have it open.
func dropStore(ctx context.Context, at site) error {
	if at.engine != enginePostgres {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	if err := pgkv.Drop(ctx, at.url); !errors.Is(err, kv.ErrNoStore) {
		return err
	}
	return nil // a side that has no engine, or failed before it had one
}
