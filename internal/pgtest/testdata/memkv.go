// Package memkv is PostgreSQL in the place of the engine in memory: the build takes
// it instead of kv/memkv, by an overlay (https://pkg.go.dev/cmd/go, -overlay), so that
// the whole suites of the packages above run on a real server as they are. See the step
// "postgres" of .ci/run.
//
// Every New is a schema of its own on the server of the process. It behaves as the
// engine in memory does to who looks: near, and alone (kv.Sharer). In a bubble of
// testing/synctest, where the time stands still while somebody waits for a server, New
// is still the engine in memory, which the overlay puts into internal/mem.
package memkv

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/kv"
	mem "github.com/greenroomdb/greenroom/kv/memkv/internal/mem"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// An engine is what both have.
type engine interface {
	kv.Engine
	txn.Transactor
	kv.RangesScanner
}

// A store is one New.
type store struct {
	engine
	shared sync.Map
}

// Shared is kv.Sharer's: nobody else knows the schema.
func (d *store) Shared() *sync.Map { return &d.shared }

// Limits are those of the engine in memory.
func (d *store) Limits() kv.Limits { return kv.Limits{} }

var stores atomic.Int64

// New returns an empty store. Who forgets it closes it.
func New() kv.Engine {
	if time.Now().Year() == 2000 { // as it is in a bubble
		return &store{engine: mem.New().(engine)}
	}
	server, err := pglocal.Process()
	if err != nil {
		panic(err)
	}
	n := stores.Add(1)
	if n%10 == 0 {
		runtime.GC() // which finds what was forgotten, and has connections open
	}
	url := server.URL(fmt.Sprintf("schema=store_%d_%d&calls=3&pins=64", os.Getpid(), n))
	db, err := pgkv.Open(context.Background(), url, &pgkv.Options{IdleFor: time.Second})
	if err != nil {
		panic(err)
	}
	d := &store{engine: db}
	runtime.AddCleanup(d, func(db *pgkv.DB) { forget(db, url) }, db)
	return d
}

// Clone returns kv.ErrUnsupported: a schema can't be copied at once.
func Clone(kv.Engine) (kv.Engine, error) {
	return nil, fmt.Errorf("memkv: clone: %w", kv.ErrUnsupported)
}

// forgetting is held by who removes a store: one at a time, so that the server has
// connections for others, too.
var forgetting sync.Mutex

// forget removes a store that nobody has any more: the files of a schema, some thirty,
// are too many for a disk times the stores of a suite. It does not wait.
func forget(db *pgkv.DB, url string) {
	go func() {
		forgetting.Lock()
		defer forgetting.Unlock()
		if err := db.Close(); err != nil {
			panic(err)
		}
		var err error
		for range 10 { // the server may be too busy to answer
			if err = pgkv.Drop(context.Background(), url); err == nil {
				return
			}
			time.Sleep(time.Second)
		}
		panic(err)
	}()
}
