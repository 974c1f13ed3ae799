package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// Peers of the SQLite workloads.
const (
	fileWALFull    = "file-wal-full"
	fileDeleteFull = "file-delete-full"
	memoryVFS      = "memdb"
	rawEngine      = "raw"
)

// A workload is something to do to a connection, the same wherever it leads.
type workload struct {
	name, unit string
	// peers are those of the workload on an engine of this machine, farPeers those on
	// one behind a network: there a local file is no choice that anybody has.
	peers, farPeers []string
	// load fills the database, nil leaves it empty. When there is something to
	// load, the place is reopened afterwards: reads shall find the data where it
	// comes to rest, not where it was just written.
	load func(*sqlite3.Conn, sizes) error
	// start prepares the statements.
	start func(*sqlite3.Conn, sizes) (operation, error)
	// pages is how many pages of all of them an operation reads; nil of what reads all, or
	// writes.
	pages func(all int, s sizes) int
	// recorded is how many operations the raw peer records at most; 0 leaves it to
	// the sizes.
	recorded int
}

// An operation is a workload under way on one connection.
type operation interface {
	// run does n operations.
	run(n int) error
	// close closes the statements.
	close() error
}

// workloads returns the SQLite workloads that one connection does in a database, in the
// order of the table.
func workloads() []workload {
	file, memory := []string{fileWALFull}, []string{fileWALFull, memoryVFS}
	raw := []string{rawEngine}
	return []workload{
		{name: "sqlite/insert-1", unit: "txn/s", start: startInsert,
			peers: []string{fileWALFull, fileDeleteFull, memoryVFS, rawEngine}, farPeers: raw},
		// Recorded, eight transactions of a full measurement are 100 MB.
		{name: "sqlite/bulk", unit: "txn/s", start: startBulk, recorded: 8, peers: file, farPeers: raw},
		{name: "sqlite/blob", unit: "txn/s", start: startBlobs, recorded: 4, peers: file, farPeers: raw},
		// Reads from the cache ask no engine for anything, so only where that saves a way
		// through the network there is a raw that does.
		{name: "sqlite/point", unit: "query/s", load: loadPoint, start: startPoint, pages: pointPages, peers: memory, farPeers: append(raw, memory...)},
		{name: "sqlite/range", unit: "query/s", load: loadPoint, start: startRange, pages: rangePages, peers: memory, farPeers: append(raw, memory...)},
		{name: "sqlite/scan", unit: "query/s", load: loadScan, start: startScan, peers: memory, farPeers: raw},
		{name: "sqlite/mix", unit: "op/s", load: loadPoint, start: startMix, peers: file, farPeers: file},
		{name: "sqlite/index", unit: "index/s", load: loadScan, start: startIndex, peers: file, farPeers: file},
		{name: "sqlite/vacuum", unit: "vacuum/s", load: loadScan, start: startVacuum, peers: file, farPeers: file},
	}
}

// sqliteLines pairs every workload on an actor's database with each of its peers.
func sqliteLines(engine string) []line {
	var lines []line
	for _, w := range workloads() {
		peers := w.peers
		if engine == enginePostgres {
			peers = w.farPeers
		}
		for _, peer := range peers {
			lines = append(lines, line{w.name, w.unit, w.side("greenroom-" + engine), w.side(peer)})
		}
	}
	return lines
}

// side is w in the place called name: a peer's name, or else the subject's.
func (w workload) side(name string) side {
	return side{name, func(ctx context.Context, at site) (runner, error) {
		if name == rawEngine {
			return w.openRaw(ctx, at)
		}
		p, err := openPlace(ctx, name, at)
		if err != nil {
			return nil, err
		}
		return w.open(ctx, p, at.sizes)
	}}
}

// openPlace opens the place of a peer that has one, or else the subject's.
func openPlace(ctx context.Context, name string, at site) (place, error) {
	switch name {
	case fileWALFull:
		return &filePlace{filepath.Join(at.dir, "bench.db"), "WAL"}, nil
	case fileDeleteFull:
		return &filePlace{filepath.Join(at.dir, "bench.db"), "DELETE"}, nil
	case memoryVFS:
		return openMemory(at), nil
	}
	p, err := openActor(ctx, at)
	if err != nil {
		return nil, err // and no place that is a nil pointer
	}
	return p, nil
}

// open prepares w in p, which it closes if that fails.
func (w workload) open(ctx context.Context, p place, s sizes) (*session, error) {
	if err := w.fill(ctx, p, s); err != nil {
		return nil, errors.Join(err, p.close())
	}
	c, err := p.connect()
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	op, err := w.start(c, s)
	if err != nil {
		return nil, errors.Join(err, c.Close(), p.close())
	}
	return &session{p, c, op}, nil
}

// fill loads what w needs in p through a connection of its own.
func (w workload) fill(ctx context.Context, p place, s sizes) error {
	if w.load == nil {
		return nil
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	if err := errors.Join(w.load(c, s), c.Close()); err != nil {
		return err
	}
	return p.reopen(ctx)
}

// A session is a workload at work in a place: the runner of its side.
type session struct {
	place place
	conn  *sqlite3.Conn
	op    operation
}

var _ runner = (*session)(nil)

func (s *session) run(_ context.Context, n int) error { return s.op.run(n) }

func (s *session) counts() faultkv.Counts { return s.place.counts() }

func (s *session) close() error {
	return errors.Join(s.op.close(), s.conn.Close(), s.place.close())
}

// prepare prepares one statement.
func prepare(c *sqlite3.Conn, sql string) (*sqlite3.Stmt, error) {
	stmt, _, err := c.Prepare(sql)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	return stmt, nil
}

// prepareAll prepares statements, each to where it goes. The caller closes those that are
// not nil, also after an error.
func prepareAll(c *sqlite3.Conn, to map[string]**sqlite3.Stmt) error {
	for sql, stmt := range to {
		var err error
		if *stmt, err = prepare(c, sql); err != nil {
			return err
		}
	}
	return nil
}
