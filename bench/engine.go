package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/metrics"
)

// Engines that a subject can stand on.
const (
	enginePebble   = "pebble"
	engineMem      = "mem"
	enginePostgres = "postgres"
)

// openEngine opens the engine of the stand with the options that a program gets when it
// asks for none, unless it is open. It counts what it is asked for.
func (s *stand) openEngine() *faultkv.Engine {
	if s.engine == nil {
		engine := must(s.newEngine())
		if s.trip > 0 {
			engine = farEngine{engine}
		}
		s.engine = faultkv.New(engine)
		s.engine.Delay(s.trip)
		s.end(func() error {
			engine := s.engine
			s.engine = nil
			return engine.Close()
		})
		if s.on == engineMem {
			s.kept = len(s.ends)
		}
	}
	return s.engine
}

// A farEngine is one in memory that looks like one behind a network, but for the time that
// calls take: what is above reads ahead and keeps what it has read, several ranges are one
// call, and nothing is shared within the process, since others may write too.
type farEngine struct{ kv.Engine }

// Limits is kv.Engine's.
func (e farEngine) Limits() kv.Limits {
	l := e.Engine.Limits()
	l.Far = true
	return l
}

// ScanRanges is kv.RangesScanner's, as the engine in memory is.
func (e farEngine) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.ScanRanges(ctx, e.Engine, ranges)
}

func (s *stand) newEngine() (kv.Engine, error) {
	switch s.on {
	case enginePebble:
		s.fsyncs.known = true
		return pebblekv.Open(filepath.Join(s.dir, "store"), &pebblekv.Options{Metrics: &s.fsyncs})
	case engineMem:
		return memkv.New(), nil
	case enginePostgres:
		return pgkv.Open(s.ctx, s.url, nil)
	}
	return nil, fmt.Errorf("no engine is called %q", s.on)
}

// limits are those of actors whose quota no measurement outgrows, however long it runs.
func limits() batch.Limits {
	return batch.Limits{Storage: 1 << 40}
}

// openStore opens the actors of the stand's engine, unless they are open.
func (s *stand) openStore() {
	if s.store == nil {
		s.store = must(actorstore.Open(s.ctx, s.openEngine(), &actorstore.Options{Limits: limits()}))
		s.end(func() error {
			store := s.store
			s.store = nil
			return store.Close()
		})
	}
}

// actor opens an actor of the stand's store.
func (s *stand) actor(name string) *actorstore.Actor {
	s.openStore()
	return owned(s, must(s.store.Named(s.ctx, name, nil)))
}

// dropTimeout is how long removing a store from a server may take. It is done after an
// interrupt as well.
const dropTimeout = 30 * time.Second

// dropStore removes the store at url, if a side made one there. Nothing may have it open.
func dropStore(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	if err := pgkv.Drop(ctx, url); !errors.Is(err, kv.ErrNoStore) {
		return err
	}
	return nil // a side that has no engine, or failed before it had one
}

// fsyncsName is what package pebblekv counts fsyncs under, whatever the file.
const fsyncsName = "pebblekv_fsyncs"

// logBytesName is what it counts the bytes of logs under.
const logBytesName = "pebblekv_log_bytes"

// An fsyncMeter counts the fsyncs of the engines that one side opens in this process, and the
// bytes of their logs. It is the metrics.Sink of those that can tell.
type fsyncMeter struct {
	known  bool // whether there was such an engine
	n      atomic.Int64
	logged atomic.Int64 // bytes
	during func()       // of a test: is called as a part of every fsync
}

var _ metrics.Sink = (*fsyncMeter)(nil)

// Add implements metrics.Sink.
func (m *fsyncMeter) Add(of *metrics.Metric, n int64) {
	switch of.Name {
	case fsyncsName:
		m.n.Add(n)
		if m.during != nil {
			m.during()
		}
	case logBytesName:
		m.logged.Add(n)
	}
}

// Observe implements metrics.Sink.
func (m *fsyncMeter) Observe(*metrics.Metric, time.Duration) {}

// count returns the number of fsyncs so far, NaN if the engine doesn't report them.
func (m *fsyncMeter) count() float64 { return m.told(&m.n) }

// logBytes returns the number of bytes in logs so far, NaN if the engine doesn't report them.
func (m *fsyncMeter) logBytes() float64 { return m.told(&m.logged) }

// told returns a number, NaN if the engine doesn't report it.
func (m *fsyncMeter) told(n *atomic.Int64) float64 {
	if !m.known {
		return math.NaN()
	}
	return float64(n.Load())
}
