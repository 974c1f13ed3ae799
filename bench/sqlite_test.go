package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// tinySizes let every workload run in milliseconds. The scanned table is still
// larger than scanCache.
func tinySizes() sizes {
	return sizes{bulk: 500, blobs: 2, point: 200, scan: 5000, actors: 5, opens: 2, many: 20, speedtest: 1, texts: 1 << 16, build: 1 << 13}
}

// TestLines runs every line at a tiny size over the memory engine, and holds what
// each workload asks of its engine: a faster clock must not hide another work.
func TestLines(t *testing.T) {
	all := lines(engineMem, false)
	for _, l := range lines(enginePostgres, false) { // those that only a far engine has
		if !slices.ContainsFunc(all, func(m line) bool { return m.title() == l.title() }) {
			all = append(all, l)
		}
	}
	bin := testkit.SharedDir(t)
	for _, l := range all {
		if l.title() == speedtestInMemory {
			continue
		}
		t.Run(l.title(), func(t *testing.T) {
			at, rounds := site{bin: bin, on: engineMem, sizes: tinySizes()}, 2
			if l.name == "sqlite/speedtest1" { // whose operation takes as long as it does
				rounds = 1
			}
			r := measured(t, l, at, onePass(rounds))
			for range 5 {
				if disturbed := disturbances[l.name]; disturbed != nil && disturbed(r) {
					r = measured(t, l, at, onePass(2))
				}
			}
			check := checks[l.name]
			if check == nil {
				t.Fatal("no check of its counts")
			}
			check(t, r)
		})
	}
}

// disturbances say by workload whether something may have come between, so that another measurement is asked for.
var disturbances = map[string]func(result) bool{
	// Hosts of a fleet renew their leases, and look at those of others, by themselves.
	"host/forwarded": func(r result) bool { return r.reads()+r.counts.Commits > 0 },
	// The result of a step commits alone when a busy machine takes a millisecond to begin the next one.
	"workflow/step": func(r result) bool { return r.perOp(r.counts.Commits) > stepCommits },
}

// checks say by workload what its engine is asked for.
var checks = map[string]func(*testing.T, result){
	"sqlite/insert-1":   durably(1),
	"sqlite/insert-200": durably(1),
	"door/update":       durably(1),
	"together/transfer": durably(1),
	"sqlite/ops":        durably(1),
	"kv/put":            durably(1), // how long the value is that goes, for the quota, is remembered
	"queue/cycle":       durably(cycleCommits),
	"workflow/step":     durably(stepCommits),
	"backup/insert-1":   durably(1),
	"backup/insert-200": durably(1),
	"backup/put-200":    durably(1),
	"backup/outage-200": durably(1),
	"sqlite/point":      silently,
	"sqlite/range":      silently,
	"traces/span": func(t *testing.T, r result) {
		// A round is stored when it ends: with one commit, of so few spans, and not one each.
		if commits := r.perOp(r.counts.Commits); commits > 1/float64(r.ops) || r.counts.Commits == 0 || r.reads() != 0 {
			t.Errorf("a span takes %v commits, in rounds of %d, and %d reads", commits, r.ops, r.reads())
		}
	},
	"items/put": func(t *testing.T, r result) {
		// The schema's row, and one for each path.
		if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads != 4 || commits != 1 || r.counts.Durable != r.counts.Commits {
			t.Errorf("a put takes %v reads and %v commits, want 4 and 1, durable", reads, commits)
		}
	},
	"items/get":  reading(2),            // the schema's row, and the item's
	"items/list": reading(2),            // the schema's row, and the list
	"items/sync": reading(3 + listRows), // the schema's row, what the log forgot, the log, and a row each
	"docs/put": func(t *testing.T, r result) {
		// The rows of what is derived, of its state, and of the document, its parent and its type.
		if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads > 20 || commits != 1 || r.counts.Durable != r.counts.Commits {
			t.Errorf("a put takes %v reads and %v commits, want 20 at most and 1, durable", reads, commits)
		}
	},
	"docs/build": func(t *testing.T, r result) {
		if commits := r.perOp(r.counts.Commits); commits != 1 {
			t.Errorf("to put the texts of a build takes %v commits, want 1", commits)
		}
	},
	"docs/search":       reading(20), // nothing is read for each document: all are pending
	"docs/search-short": reading(20),
	"docs/size":         silently,
	"host/turn":         turnCounts,
	"host/turn-many":    turnCounts,
	"host/forwarded":    silently,
	"host/awake":        silently,
	"host/asleep":       silently,
	"sqlite/bulk": func(t *testing.T, r result) {
		if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads > 1 || commits != 1 {
			t.Errorf("a transaction takes %v reads and %v commits, want at most 1 and exactly 1", reads, commits)
		}
	},
	"sqlite/blob": func(t *testing.T, r result) {
		if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads > 1 || commits != 1 {
			t.Errorf("a transaction takes %v reads and %v commits, want at most 1 and exactly 1", reads, commits)
		}
		if bytes := r.perOp(r.counts.Bytes); bytes < 2*blobLength {
			t.Errorf("a transaction writes %v bytes, want at least two blobs of %d", bytes, blobLength)
		}
	},
	"sqlite/scan": func(t *testing.T, r result) {
		// The table has about 160 pages, of which 64 fit SQLite's cache, and the others the
		// Store's once they were read twice: by the warm-up and in the first round.
		if reads := r.perOp(r.reads()); reads > 80 || r.counts.Commits != 0 {
			t.Errorf("a scan takes %v reads and %d commits, want at most 80 and none", reads, r.counts.Commits)
		}
	},
	"sqlite/mix": func(t *testing.T, r result) {
		// Warm-up and rounds are one operation each, so none of them is the tenth.
		silently(t, r)
	},
	"sqlite/index": func(t *testing.T, r result) {
		if commits := r.perOp(r.counts.Commits); commits != 2 {
			t.Errorf("to make an index and drop it takes %v commits, want 2", commits)
		}
	},
	"sqlite/vacuum": func(t *testing.T, r result) {
		if commits := r.perOp(r.counts.Commits); commits < 1 || commits > 2 {
			t.Errorf("a VACUUM takes %v commits, want 1 or 2", commits)
		}
	},
	"sqlite/open-cold": func(t *testing.T, r result) {
		// To open the store and the actor, and a row on another page each time.
		if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads == 0 || reads > 30 || commits > 5 {
			t.Errorf("to open takes %v reads and %v commits, want some, 30 and 5 at most", reads, commits)
		}
	},
	"sqlite/open":      opened,
	"sqlite/open-many": opened,
	"sqlite/readers": func(t *testing.T, r result) {
		if r.counts.Commits == 0 {
			t.Error("nothing was written beside the readers")
		}
	},
	"sqlite/speedtest1": func(t *testing.T, r result) {
		if r.counts.Commits == 0 || r.reads() == 0 {
			t.Errorf("the program says that its engine was asked for %+v", r.counts)
		}
	},
}

// durably is the check of operations that read nothing and make so many durable commits.
func durably(want float64) func(*testing.T, result) {
	return func(t *testing.T, r result) {
		if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads != 0 || commits != want {
			t.Errorf("an operation takes %v reads and %v commits, want 0 and %v", reads, commits, want)
		}
		if r.counts.Durable != r.counts.Commits || r.waits() != r.counts.Durable {
			t.Errorf("%d of %d commits are durable, and %d waits for the disk; want the same of all", r.counts.Durable, r.counts.Commits, r.waits())
		}
	}
}

// reading is the check of operations that read so often, and commit nothing.
func reading(want float64) func(*testing.T, result) {
	return func(t *testing.T, r result) {
		if reads := r.perOp(r.reads()); reads > want || reads == 0 || r.counts.Commits != 0 {
			t.Errorf("an operation takes %v reads and %d commits, want %v at most and none", reads, r.counts.Commits, want)
		}
	}
}

// opened is the check of databases that are opened: to take the actor, and nothing that has to
// be on disk before it is used.
func opened(t *testing.T, r result) {
	if reads, commits := r.perOp(r.reads()), r.perOp(r.counts.Commits); reads == 0 || reads > 20 || commits > 2 {
		t.Errorf("to open takes %v reads and %v commits, want some, 20 at most, and at most 2", reads, commits)
	}
}

// TestOpenMany: what it takes to open an actor doesn't grow with the number of actors.
func TestOpenMany(t *testing.T) {
	var asked []faultkv.Counts
	for _, many := range []int{0, 200} {
		s := tinySizes()
		s.many = many
		staged(t, site{on: enginePebble, sizes: s}, func(s *stand) {
			openMany(s)
			c := s.measured(4).counts
			c.Bytes = 0 // of ids and times, whose lengths differ
			asked = append(asked, c)
		})
	}
	if asked[0] != asked[1] || asked[0].Commits == 0 {
		t.Errorf("alone it takes %+v, among many %+v", asked[0], asked[1])
	}
}

// silently is the check of operations that ask the engine for nothing.
func silently(t *testing.T, r result) {
	if r.counts.Commits != 0 || r.reads() != 0 {
		t.Errorf("warm reads take %d reads and %d commits, want none", r.reads(), r.counts.Commits)
	}
}

// TestRawPlaysTheSameBytes holds that the peer "raw" writes what the subject writes,
// operation by operation, and of every actor where there are many.
func TestRawPlaysTheSameBytes(t *testing.T) {
	for _, w := range workloads() {
		if w.kept == 0 {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			at := site{on: engineMem, sizes: tinySizes()}
			played := func(open func(*stand), before int) (c faultkv.Counts, workers int) {
				staged(t, at, func(s *stand) {
					open(s)
					all := func() { check(together(s.workers, func(int) func() bool { return countdown(w.kept) })) }
					for range before { // what isn't recorded
						all()
					}
					c = s.time(all).counts
					workers = len(s.workers)
				})
				return c, workers
			}
			got, workers := played(w.openRaw, 0)
			want, _ := played(w.subject(), 1)
			for range 10 { // a busy machine has a step's result land by itself, for which raw records another time, too
				if want.Commits == got.Commits {
					break
				}
				want, _ = played(w.subject(), 1)
			}
			if commits := int64(workers * w.kept * w.commits); got.Commits != commits || got.Durable != commits {
				t.Errorf("raw makes %d commits, %d of them durable, in %d operations; want %d of each", got.Commits, got.Durable, workers*w.kept, commits)
			}
			want.Gets, want.Scans, want.Snapshots = 0, 0, 0 // the subject's readers
			if strings.HasPrefix(w.name, "host/") {         // waits apart, which many share
				want.Durable, want.Syncs = want.Commits, 0
			}
			if got != want {
				t.Errorf("raw asks the engine for %+v, the subject for %+v", got, want)
			}
		})
	}
}

// TestRawRefuses: playing back commits makes sense only where an operation makes as many as
// the workload says.
func TestRawRefuses(t *testing.T) {
	w := workload{name: "test", commits: 1, kept: 4, start: func(s *stand, c *sqlite3.Conn) func() error {
		load(s, c, s.sizes.point)
		return startPoint(s, c)
	}}
	staged(t, site{on: engineMem, sizes: tinySizes()}, func(s *stand) {
		if err := s.visit(w.openRaw); !errors.Is(err, errManyCommits) {
			t.Errorf("error %v, want %v", err, errManyCommits)
		}
	})
}

// TestReadback: the peer "raw" of a scan reads at least the pages that the subject reads,
// with one scan of its engine.
func TestReadback(t *testing.T) {
	w := workloadOf("sqlite/scan")
	staged(t, site{on: engineMem, sizes: tinySizes()}, func(s *stand) {
		w.openReadback(s)
		if c := s.measured(3).counts; c.Scans != 3 || c.Gets != 0 || c.Commits != 0 {
			t.Errorf("3 operations took %+v, want 3 scans", c)
		}
		// Each page has a metadata row and a row of data.
		rows := 0
		for _, err := range s.engine.Scan(t.Context(), kv.Range{}) {
			check(err)
			rows++
		}
		if rows < 2*140 {
			t.Errorf("a scan finds %d rows, want two for each of at least 140 pages", rows)
		}
		// What isn't there any more is noticed.
		check(s.engine.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set([]byte("more"), nil)}}))
		if err := s.do(1); err == nil {
			t.Error("a scan that found another number of rows was no error")
		}
	})
}
