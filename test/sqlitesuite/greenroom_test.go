package sqlitesuite

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A mode is a set of limits that makes transactions take one way into the store.
type mode struct {
	name   string
	limits batch.Limits
	// pragmas are run on every connection.
	pragmas []string
	// taken complains about counts that show another way.
	taken func(t *testing.T, s vfs.Stats)
}

// modes are the two ways: one atomic commit, and the rollback journal because
// almost nothing fits one commit.
var modes = []mode{
	{"atomic", batch.Limits{}, nil, func(t *testing.T, s vfs.Stats) {
		if s.AtomicCommits == 0 || s.Fallbacks > 0 {
			t.Errorf("want atomic commits and no fallback: %+v", s)
		}
	}},
	{"journal", batch.Limits{Entries: 8, AtomicBatches: 1}, nil, func(t *testing.T, s vfs.Stats) {
		if s.AtomicCommits == 0 || s.Fallbacks == 0 || s.JournalCommits == 0 {
			t.Errorf("want commits on both ways: %+v", s)
		}
	}},
}

// logMode is the third way: the write-ahead log. It is SQLite's own and not the
// limits' doing, so the suites that compare journals leave it out.
var logMode = mode{"wal", batch.Limits{}, []string{"journal_mode=wal"}, func(t *testing.T, s vfs.Stats) {
	if s.LogCommits == 0 {
		t.Errorf("want commits to the log: %+v", s)
	}
}}

// names numbers the VFSs: their names are process-wide, and a process that
// outlived its script must not find the database of the next.
var names atomic.Int64

// A room is an actor's database in a store on disk.
type room struct {
	dir    string
	limits batch.Limits

	engine *pebblekv.DB
	store  *actorstore.Store
	actor  *actorstore.Actor
	vfs    *vfs.VFS
	target target
}

// newRoom makes an empty one. Closing it is checked when the test ends.
func newRoom(t *testing.T, m mode) *room {
	t.Helper()
	r := &room{dir: t.TempDir(), limits: m.limits}
	r.open(t)
	t.Cleanup(func() { r.close(t) })
	return r
}

// database is the name under which the actor is mounted.
const database = "test.db"

func (r *room) open(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var err error
	if r.engine, err = pebblekv.Open(r.dir, nil); err != nil {
		t.Fatal(err)
	}
	if r.store, err = actorstore.Open(ctx, r.engine, &actorstore.Options{Limits: r.limits}); err != nil {
		t.Fatal(err)
	}
	if r.actor, err = r.store.Named(ctx, "suite", nil); err != nil {
		t.Fatal(err)
	}
	r.vfs = vfs.New(nil)
	if err = r.vfs.Mount(ctx, database, r.actor); err != nil {
		t.Fatal(err)
	}
	r.target = target{
		vfs:     fmt.Sprintf("greenroom-suite-%d", names.Add(1)),
		db:      "/" + database,
		without: []string{osOnly, journalOff},
	}
	if err = r.vfs.Register(r.target.vfs); err != nil {
		t.Fatal(err)
	}
}

func (r *room) close(t *testing.T) {
	t.Helper()
	if err := r.vfs.Unregister(); err != nil {
		t.Error(err)
	}
	if err := r.vfs.Unmount(database); err != nil {
		t.Error(err)
	}
	if err := r.actor.Close(); err != nil {
		t.Error(err)
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
	if err := r.engine.Close(); err != nil {
		t.Error(err)
	}
}

// checked gives a program the database, and looks at it when the program is done:
// it went the way it was meant to, and what it left is on disk.
func (r *room) checked(m mode) target {
	x := r.target
	x.check = func(t *testing.T) {
		s, err := r.vfs.Stats(database)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", s)
		m.taken(t, s)
		r.close(t)
		r.open(t)
		checkIntegrity(t, r.target.dsn())
	}
	return x
}

// TestMptest plays the scripts over Greenroom's VFS, either way.
func TestMptest(t *testing.T) {
	for _, m := range modes {
		for _, s := range scripts {
			t.Run(m.name+"/"+s.name, func(t *testing.T) { runScript(t, newRoom(t, m).checked(m), s) })
		}
	}
	// The others change the journal mode while clients are connected, which waits for
	// them for ever in a WAL; go-sqlite3 leaves them out there, too.
	for _, s := range scripts[:2] {
		t.Run(logMode.name+"/"+s.name, func(t *testing.T) {
			runScript(t, newRoom(t, logMode).checked(logMode), s, "--journalmode", "wal")
		})
	}
}

// TestSpeedtest runs speedtest1 over Greenroom's VFS, either way, and compares
// what it leaves with what it leaves in memdb.
func TestSpeedtest(t *testing.T) {
	memory := memoryTarget(t)
	runSpeedtest(t, memory)
	want := dump(t, memory.dsn())
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			r := newRoom(t, m)
			runSpeedtest(t, r.checked(m))
			if !t.Failed() {
				sameContent(t, dump(t, r.target.dsn()), want)
			}
		})
	}
}
