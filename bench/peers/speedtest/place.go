package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/vfs"
)

// A place is where new databases are made.
type place struct {
	kind, dir string
	made      int
	// engine and store are nil unless the databases are actors'.
	engine *faultkv.Engine
	store  *actorstore.Store
	// fsyncs counts those of an engine that can tell.
	fsyncs fsyncs
}

// fsyncs is a metrics.Sink that counts the fsyncs of package pebblekv.
type fsyncs struct{ atomic.Int64 }

// Add implements metrics.Sink.
func (f *fsyncs) Add(m *metrics.Metric, n int64) {
	if m.Name == "pebblekv_fsyncs" {
		f.Int64.Add(n)
	}
}

// Observe implements metrics.Sink.
func (f *fsyncs) Observe(*metrics.Metric, time.Duration) {}

// open opens the place of args: PLACE SIZE DIR URL.
func open(ctx context.Context, args []string) (*place, error) {
	p := &place{kind: args[0], dir: args[2]}
	var engine kv.Engine
	var err error
	switch p.kind {
	case "file-delete-full", "memdb":
		return p, nil
	case "greenroom-mem":
		engine = memkv.New()
	case "greenroom-pebble":
		engine, err = pebblekv.Open(filepath.Join(p.dir, "store"), &pebblekv.Options{Metrics: &p.fsyncs})
	case "greenroom-postgres":
		engine, err = pgkv.Open(ctx, args[3], nil)
	default:
		return nil, fmt.Errorf("no place is called %q", p.kind)
	}
	if err != nil {
		return nil, err
	}
	p.engine = faultkv.New(engine)
	limits := batch.DefaultLimits()
	limits.Storage = 1 << 40
	if p.store, err = actorstore.Open(ctx, p.engine, &actorstore.Options{Limits: limits}); err != nil {
		return nil, errors.Join(err, p.engine.Close())
	}
	return p, nil
}

// asked is what an answer says of the engine; Fsyncs is absent if it can't tell.
type asked struct {
	faultkv.Counts
	Fsyncs *int64 `json:",omitempty"`
}

// reset has asked begin anew.
func (p *place) reset() {
	p.fsyncs.Store(0)
	if p.engine != nil {
		p.engine.Reset()
	}
}

// asked returns what the engine was asked for since the last reset.
func (p *place) asked() (a asked) {
	if p.engine != nil {
		a.Counts = p.engine.Counts()
	}
	if n := p.fsyncs.Load(); p.kind == "greenroom-pebble" {
		a.Fsyncs = &n
	}
	return a
}

// run runs speedtest1 in a new database.
func (p *place) run(ctx context.Context, size string) error {
	p.made++
	name := fmt.Sprintf("speedtest-%d.db", p.made)
	switch {
	case p.store != nil:
		return p.runActor(ctx, name, size)
	case p.kind == "memdb":
		memdb.Create(name, nil)
		defer memdb.Delete(name)
		return speedtest(ctx, "--vfs", "memdb", "--size", size, "/"+name)
	}
	return speedtest(ctx, "--size", size, filepath.Join(p.dir, name))
}

func (p *place) runActor(ctx context.Context, name, size string) (err error) {
	actor, err := p.store.Named(ctx, name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, actor.Close()) }()
	v := vfs.New(nil)
	if err := v.Mount(ctx, name, actor); err != nil {
		return err
	}
	if err := v.Register(name); err != nil {
		return errors.Join(err, v.Unmount(name))
	}
	defer func() { err = errors.Join(err, v.Unregister(), v.Unmount(name)) }()
	return speedtest(ctx, "--vfs", name, "--size", size, "/"+name)
}

// close closes the place, and adds what went wrong to err.
func (p *place) close(err error) error {
	if p.store == nil {
		return err
	}
	return errors.Join(err, p.store.Close(), p.engine.Close())
}
