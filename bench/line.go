package main

import (
	"cmp"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/corpus"
)

// A line compares a subject with a peer on the same work.
type line struct {
	// name is the workload, "sqlite/insert-1".
	name string
	// unit is what throughputs are counted in, "txn/s".
	unit          string
	subject, peer side
	// atLeast is the ratio that the line should have on Pebble; 0 if nothing is promised.
	// A line that stays below is not an error of a run; docs/performance.md says what it is
	// up against.
	atLeast float64
	// fixed says that the subject's engine is always the same one, of which atLeast is promised.
	fixed bool
}

// title names a line among those of the same workload.
func (l line) title() string { return l.name + " " + l.peer.name }

// A side is one of the two that a line compares.
type side struct {
	// name is what it is called in the output, "file-wal-full".
	name string
	open func(*stand)
}

// A workload is what the subjects of some lines do, and with whom they are compared.
type workload struct {
	name, unit string
	// open opens the subject. It is nil for a workload on a SQLite database, which start
	// begins on a connection; many says that it is done in many databases at once.
	open  func(*stand)
	start func(s *stand, c *sqlite3.Conn) (operation func() error)
	many  bool
	// rows is how many rows the database has before; nil leaves it empty. reads is how many
	// of them an operation reads; 0 of what reads all.
	rows  func(sizes) int
	reads int
	// commits is how many engine commits an operation makes that reads nothing, and kept how
	// many operations of each worker the peer raw records and plays back.
	commits, kept int
	// on is the engine of the subject if that isn't the run's.
	on    string
	peers []peer
}

// A peer is what a workload is compared with.
type peer struct {
	name    string
	atLeast float64 // see line
	where   where
	// open is nil for a peer that does the workload itself, in another place.
	open func(*stand)
}

// where says with which engines there is a peer: with all, with those of this machine, or
// with one behind a network, where a file on this machine is not a choice.
type where int

const (
	anywhere where = iota
	near
	far
	withPeers // near, and only if other drivers are asked for
)

// workloads are all there are, in the order of the table.
func workloads() []workload {
	point, scan := func(s sizes) int { return s.point }, func(s sizes) int { return s.scan }
	drivers := []peer{{modernc, 0, withPeers, nil}, {mattn, 0, withPeers, nil}}
	return slices.Concat([]workload{
		{name: "sqlite/insert-1", unit: "txn/s", start: startInsert, commits: 1, kept: 256,
			peers: append([]peer{{fileWALFull, 1, near, nil}, {fileDeleteFull, 2.5, near, nil}, {memoryVFS, 0, near, nil}, {rawEngine, 0.9, anywhere, nil}}, drivers...)},
		// Recorded, eight transactions of a full measurement are 100 MB.
		{name: "sqlite/bulk", unit: "txn/s", start: startBulk, commits: 1, kept: 8,
			peers: append([]peer{{fileWALFull, 1, near, nil}, {rawEngine, 0, far, nil}}, drivers...)},
		{name: "sqlite/blob", unit: "txn/s", start: startBlobs, commits: 1, kept: 4,
			peers: []peer{{fileWALFull, 1, near, nil}, {rawEngine, 0, far, nil}}},
		// Reads from the cache ask no engine for anything, so only where that saves a way
		// through the network there is a raw that does.
		{name: "sqlite/point", unit: "query/s", rows: point, reads: 1, start: startPoint,
			peers: append([]peer{{rawEngine, 0, far, nil}, {fileWALFull, 1, anywhere, nil}, {memoryVFS, 0.85, anywhere, nil}}, drivers...)},
		{name: "sqlite/range", unit: "query/s", rows: point, reads: rangeRows, start: startRange,
			peers: append([]peer{{rawEngine, 0, far, nil}, {fileWALFull, 1, anywhere, nil}, {memoryVFS, 0.85, anywhere, nil}}, drivers...)},
		{name: "sqlite/scan", unit: "query/s", rows: scan, start: startScan,
			peers: append([]peer{{fileWALFull, 1, near, nil}, {memoryVFS, 0.85, near, nil}, {rawEngine, 0, far, nil}}, drivers...)},
		{name: "sqlite/mix", unit: "op/s", rows: point, start: startMix, peers: []peer{{fileWALFull, 0, anywhere, nil}}},
		{name: "sqlite/index", unit: "index/s", rows: scan, start: startIndex, peers: []peer{{fileWALFull, 0, anywhere, nil}}},
		{name: "sqlite/vacuum", unit: "vacuum/s", rows: scan, start: startVacuum, peers: []peer{{fileWALFull, 0, anywhere, nil}}},
		{name: "door/update", unit: "txn/s", open: updates(throughDoor), peers: []peer{{belowDoor, 0.95, anywhere, updates(throughVFS)}}},
		{name: "sqlite/open", unit: "open/s", open: openActors, peers: []peer{{fileWALFull, 1, anywhere, openFiles}}},
		{name: "sqlite/open-many", unit: "open/s", open: openMany, peers: []peer{{fewActors, 0, near, openActors}}},
		{name: "sqlite/open-cold", unit: "open/s", open: openColdActor, peers: []peer{{fileWALFull, 0, anywhere, openColdFile}}},
		{name: "sqlite/readers", unit: "query/s", open: openReaders,
			peers: []peer{{pacePeer, 0.95, anywhere, metronome(func(s *stand) float64 { return *s.pace })}}},
		{name: "sqlite/ops", unit: "txn/call", open: openCalls,
			peers: []peer{{rivetkit, rivetkitOps, anywhere, metronome(func(*stand) float64 { return 1.0 / rivetkitOps })}}},
		{name: "sqlite/speedtest1", unit: "run/s", open: speedtest(anActor),
			peers: []peer{{fileDeleteFull, 1, anywhere, speedtest(fileDeleteFull)}, {memoryVFS, 0.8, anywhere, speedtest(memoryVFS)}}},
		{name: "sqlite/insert-200", unit: "txn/s", start: startInsert, many: true, commits: 1, kept: 8,
			peers: []peer{{fileWALFull, 4, near, nil}, {memoryVFS, 0, near, nil}, {rawEngine, 0.85, anywhere, nil}}},
		{name: "kv/put", unit: "put/s", open: crowd(beginPuts), commits: 1, kept: putKeys, peers: []peer{{rawEngine, 0.8, anywhere, nil}}},
		{name: "queue/cycle", unit: "cycle/s", open: workBy(alone, crowd(beginCycles)), peers: []peer{{sqliteFile, 2, near, openFileQueue}}},
		{name: "queue/cycle", unit: "cycle/s", open: crowd(beginCycles), commits: cycleCommits, kept: 8, peers: []peer{{rawEngine, 0.8, anywhere, nil}}},
		{name: "workflow/step", unit: "step/s", open: crowd(beginSteps), commits: stepCommits, kept: stepForgets, peers: []peer{{rawEngine, 0.8, anywhere, nil}}},
		{name: "host/turn", unit: "turn/s", open: openTurns, commits: 1, kept: 8, peers: []peer{{rawEngine, 0, anywhere, nil}}},
		{name: "host/turn-many", unit: "turn/s", open: workBy(byThousands, openTurns), commits: 1, kept: 8, peers: []peer{{rawEngine, 0, anywhere, nil}}},
		{name: "host/forwarded", unit: "call/s", open: forwarded(""),
			peers: []peer{{atItsHost, 0, anywhere, forwarded(atItsHost)}, {withTrip, 0, anywhere, forwarded(withTrip)}}},
		{name: "items/put", unit: "put/s", open: openItemPut,
			peers: []peer{{rawEngine, 0.5, anywhere, openRawPut}, {playback, 0, anywhere, openPlaybackPut}, {sqliteTable, 0, near, openFilePut}}},
		{name: "items/get", unit: "get/s", open: openItemGet,
			peers: []peer{{rawEngine, 0.8, anywhere, openRawGet}, {txnView, 0, anywhere, openViewGet}, {sqliteTable, 0, near, openFileGet}}},
		{name: "items/list", unit: "list/s", open: openItemList, peers: []peer{{rawEngine, 0, anywhere, openRawList}, {sqliteTable, 0, near, openFileList}}},
		{name: "items/sync", unit: "sync/s", open: openItemSync, peers: []peer{{rawEngine, 0, anywhere, openRawList}, {sqliteTable, 0, near, openFileSync}}},
		{name: "docs/put", unit: "put/s", open: libraries().puts(),
			peers: []peer{{fts5, 0, near, textsFiles().puts()}, {bleve, 0, withPeers, inBleve("put")}}},
		{name: "docs/build", unit: "build/s", open: libraries().builds(),
			peers: []peer{{fts5, 0, near, textsFiles().builds()}, {bleve, 0, withPeers, inBleve("build")}}},
		{name: "docs/search", unit: "query/s", open: libraries().searches(corpus.Patterns),
			peers: []peer{{fts5, 1, near, textsFiles().searches(corpus.Patterns)}, {bleve, 0, withPeers, inBleve("search")}}},
		{name: "docs/search-short", unit: "query/s", open: libraries().searches(corpus.Short),
			peers: []peer{{fts5, 0, near, textsFiles().searches(corpus.Short)}, {bleve, 0, withPeers, inBleve("search-short")}}},
		{name: "docs/size", unit: "text/disk", on: enginePebble, open: libraries().sizes(),
			peers: []peer{{fts5, 0, near, textsFiles().sizes()}, {bleve, 0, withPeers, inBleve("load")}}},
		// How many actors there may be in a GiB of memory.
		{name: "host/awake", unit: "actors/GiB", on: engineMem, open: workBy(byThousands, openAwake),
			peers: []peer{{"goroutine", 0, anywhere, workBy(byThousands, openGoroutines)}}},
		{name: "host/asleep", unit: "actors/GiB", on: engineMem, open: workBy(byThousands, openAsleep),
			peers: []peer{{"timer", 0, anywhere, workBy(byThousands, openTimers)}}},
		{name: "traces/span", unit: "span/s", open: openTraces,
			peers: []peer{{otelNoop, 0.5, anywhere, func(s *stand) { program(s, "otelnoop") }}}},
	}, transfers(), backups(), besideProducts())
}

// backups are the workloads in a store that is backed up.
func backups() []workload {
	return []workload{
		backup("insert-1", "txn/s", workload{start: startInsert}.in(anActor), backedUp),
		backup("insert-200", "txn/s", workload{start: startInsert, many: true}.in(anActor), backedUp),
		backup("put-200", "put/s", crowd(beginPuts), backedUp),
		backup("outage-200", "put/s", crowd(beginPuts), cutOff),
	}
}

// besideProducts are the workloads of programs of RivetKit's, of actor hosts, and of libraries.
func besideProducts() []workload {
	return []workload{
		rivetkitCall("insert", rivetkit23, "ws", enginePebble, peer{name: rivetEngine, atLeast: 2}),
		rivetkitCall("insert-mem", rivetkit23, "ws", engineMem, peer{name: rivetEngine, atLeast: 2}),
		rivetkitCall("http", rivetkit23, "http", enginePebble, peer{name: rivetEngine, atLeast: 2}),
		rivetkitCall("http-mem", rivetkit23, "http", engineMem, peer{name: rivetEngine, atLeast: 2}),
		rivetkitCall("insert", rivetkit22, "ws", enginePebble, peer{name: rivetDev}),
		rivetkitCall("insert-mem", rivetkit22, "ws", engineMem, peer{name: rivetDev, atLeast: 1.2}),
		rivetkitCall("http", rivetkit22, "http", enginePebble, peer{name: rivetDev}),
		rivetkitCall("http-mem", rivetkit22, "http", engineMem, peer{name: rivetDev, atLeast: 1.2}),
		onActorHosts("call", "call/s", func(of func(*actorHost)) func(*stand) { return calls(of, 1, 1) }),
		onActorHosts("call-64", "call/s", func(of func(*actorHost)) func(*stand) { return calls(of, 1, 64) }),
		onActorHosts("call-200", "call/s", func(of func(*actorHost)) func(*stand) { return calls(of, 200, 200) }),
		onActorHosts("wake", "wake/s", wakes),
		onActorHosts("resident", "actors/GiB", func(of func(*actorHost)) func(*stand) { return resident(of, 500) }),
		onLibraries("queue/one", "cycle/s", 1, durableWork.cycle, enginePebble, goqite),
		onLibraries("queue/64-callers", "cycle/s", 64, durableWork.cycle, enginePebble, goqite),
		onLibraries("queue/64-actors", "cycle/s", 64, durableWork.cycleEach, enginePebble, goqite),
		onLibraries("queue/one", "cycle/s", 1, durableWork.cycle, enginePostgres, river),
		onLibraries("queue/64-callers", "cycle/s", 64, durableWork.cycle, enginePostgres, river),
		onLibraries("queue/64-actors", "cycle/s", 64, durableWork.cycleEach, enginePostgres, river),
		onLibraries("workflow/run", "run/s", 1, durableWork.workflows, enginePebble, restate, dbosSQLite),
		onLibraries("workflow/run-64", "run/s", 64, durableWork.workflows, enginePebble, restate, dbosSQLite),
		onLibraries("workflow/run", "run/s", 1, durableWork.workflows, enginePostgres, dbos),
		onLibraries("workflow/run-64", "run/s", 64, durableWork.workflows, enginePostgres, dbos),
	}
}

// backup is a workload in a store that is backed up, and in one that isn't.
func backup(name, unit string, open func(*stand), backed func(func(*stand)) func(*stand)) workload {
	return workload{name: "backup/" + name, unit: unit, on: enginePebble, open: backed(open), peers: []peer{{noBackup, 0.9, near, inDirectory(open)}}}
}

// rivetkitCall is a workload of a program of RivetKit's.
func rivetkitCall(name, version, way, on string, p peer) workload {
	p.where = withPeers
	k := atRivetKit{version: version, way: way, on: on}
	own := k
	k.serve, own.serve = (atRivetKit).greenroom, (atRivetKit).engine
	if p.name == rivetDev {
		own.serve = (atRivetKit).dev
	}
	p.open = own.open
	return workload{name: "rivetkit/" + name, unit: "call/s", on: on, open: k.open, peers: []peer{p}}
}

// onActorHosts is a workload of actor hosts in processes of their own.
func onActorHosts(name, unit string, do func(of func(*actorHost)) func(*stand)) workload {
	return workload{name: "host/" + name, unit: unit, on: enginePebble, open: do((*actorHost).ofGreenroom), peers: []peer{{workerd, 0, withPeers, do((*actorHost).ofWorkerd)}}}
}

// onLibraries is a workload that libraries do, too, by so many callers at once.
func onLibraries(name, unit string, callers int, begin func(l durableWork, s *stand) []func() error, engine string, names ...string) workload {
	l := durableWork{callers}
	w := workload{name: name, unit: unit, on: engine, open: l.on(engine, begin)}
	for _, name := range names {
		w.peers = append(w.peers, l.peer(name))
	}
	return w
}

// subject returns what opens the workload on an actor, or on many.
func (w workload) subject() func(*stand) {
	if w.open != nil {
		return w.open
	}
	return w.in(anActor)
}

// by returns what opens the workload in the place that a peer is called.
func (w workload) by(name string) func(*stand) {
	switch {
	case name == modernc || name == mattn:
		return driver(w, name)
	case name != rawEngine:
		return w.in(name)
	case w.rows == nil:
		return w.openRaw
	case w.reads == 0:
		return w.openReadback
	}
	return w.openGlances
}

// lines returns every line there is with an engine; those of other drivers only if they are
// asked for, and those with a program of bench/peers only where its source is and Go to build
// it with, which a copy of this program on another machine hasn't.
func lines(engine string, drivers bool) (all []line) {
	_, built := peersDir()
	for _, w := range workloads() {
		subject := side{greenroomOn(cmp.Or(w.on, engine)), w.subject()}
		for _, p := range w.peers {
			needsSource := p.where == withPeers || p.name == otelNoop || w.name == "sqlite/speedtest1"
			switch {
			case engine == enginePostgres && (p.where == near || p.where == withPeers), engine != enginePostgres && p.where == far:
				continue
			case p.where == withPeers && !drivers, needsSource && !built:
				continue
			case p.open == nil:
				p.open = w.by(p.name)
			}
			all = append(all, line{w.name, w.unit, subject, side{p.name, p.open}, p.atLeast, w.on != ""})
		}
	}
	return all
}

// greenroomOn is what a subject on an engine is called.
func greenroomOn(engine string) string { return "greenroom-" + engine }
