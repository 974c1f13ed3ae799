package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A line compares one subject with one peer on the same work.
type line struct {
	// name is the workload, "sqlite/insert-1".
	name string
	// unit is what throughputs are counted in, "txn/s".
	unit          string
	subject, peer side
}

// title names a line among those of the same workload.
func (l line) title() string { return l.name + " " + l.peer.name }

// A side is one of the two that a line compares.
type side struct {
	// name is what it is called in the output, "file-wal-full".
	name string
	// open prepares its data below at.dir and returns what does the work. The
	// folder is its own, there, and empty. Nothing of it is timed.
	open func(ctx context.Context, at site) (runner, error)
}

// A runner does the work of one side of a line. It is used from one goroutine, and may
// have more of its own.
type runner interface {
	// run does n operations. This is what is timed.
	run(ctx context.Context, n int) error
	// counts returns how often the side called its engine since it was opened;
	// zero for a side that has none.
	counts() faultkv.Counts
	// close gives everything back but the files.
	close() error
}

// A site is where a side lives, and how much it shall hold.
type site struct {
	// dir is a folder of the side's own.
	dir string
	// bin is the folder for the programs that are built for a run; dir if empty.
	bin string
	// engine is "pebble", "mem" or "postgres".
	engine string
	sizes  sizes
	// fsyncs counts those of the side's engines; nil if nobody wants to know.
	fsyncs *fsyncMeter
	// far puts the engine behind a network of this round trip.
	far  bool
	trip time.Duration
	// lean has an engine on this machine use little memory.
	lean bool
	// server is where stores in PostgreSQL are, and url the address of the side's own,
	// which isn't there before the side opens it.
	server *server
	url    string
}

// own returns the part of a site that one side gets.
func (s site) own(name string) site {
	s.dir = filepath.Join(s.dir, name)
	s.fsyncs = new(fsyncMeter)
	if s.server != nil {
		s.url = s.server.newStore()
	}
	return s
}

// sizes says how much data the workloads use.
type sizes struct {
	// bulk is the number of rows of one bulk transaction.
	bulk int
	// blobs is the number of blobs of blobLength of one transaction.
	blobs int
	// point is the number of rows that point reads and ranges choose from: they fit the
	// page cache of SQLite.
	point int
	// scan is the number of rows of a full scan: they don't fit scanCache.
	scan int
	// recorded is how many transactions the raw peer records and plays back.
	recorded int
	// actors is how many actors are at work at once where there are many.
	actors int
	// opens is how many databases are opened one after the other.
	opens int
	// speedtest is speedtest1's own measure of work, in percent.
	speedtest int
}

// fullSizes are the sizes of a measurement; tests use smaller ones.
func fullSizes() sizes {
	return sizes{bulk: 100_000, blobs: 10, point: 10_000, scan: 100_000, recorded: 256, actors: 200, opens: 50, speedtest: 25}
}

// quickSizes are those of -quick: what would take it longest is smaller.
func quickSizes() sizes {
	s := fullSizes()
	s.bulk, s.scan, s.speedtest = 10_000, 20_000, 5
	return s
}

// allLines returns every line there is, in the order of the table; those of other drivers
// only if they are asked for.
func allLines(engine string, drivers bool) []line {
	lines := sqliteLines(engine)
	if drivers {
		lines = append(lines, driverLines(engine)...)
	}
	return slices.Concat(lines, doorLines(engine), openLines(engine), readersLines(engine), opsLines(engine), speedtestLines(engine),
		crowdLines(engine), hostLines(engine), tracesLines(engine))
}
