package vfs

import (
	"context"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// The tests stand outside of the package. What they can't see from there is named here: constants, errors that are not for
// callers, the files as SQLite has them, and what a database has in memory.

const (
	LeastTxMemory   = leastTxMemory
	DefaultTxMemory = defaultTxMemory
	MountName       = mountName
	ExportStep      = exportStep
	MaxKept         = maxKept
	MaxKeptText     = maxKeptText
)

var (
	ErrCutOff     = errCutOff
	ErrBypassed   = errBypassed
	ErrIndexAhead = errIndexAhead
	SQLiteError   = sqliteError
)

type (
	Files  = fileNames // what SQLite sees of a VFS
	Handle = handle    // a main file
	Conn   = conn      // a connection of a pool
)

// Claimed says whether the database of an actor is mounted anywhere.
func Claimed(actor any) bool {
	_, there := claimed.Load(actor)
	return there
}

// VFSOf returns the VFS of a pool, and RegisteredAs the name that SQLite knows it by.
func VFSOf(db *DB) *VFS { return db.vfs }

func RegisteredAs(db *DB) string { return db.vfs.registered }

// Layers returns what a connection, a statement or rows of a pool are made of: what of ours is around what of go-sqlite3's.
func Layers(v any) (driver any) {
	switch v := v.(type) {
	case *conn:
		return v.driverConn
	case *stmt:
		return v.driverStmt
	case *rows:
		return v.driverRows
	}
	return nil
}

// A Database is one that is mounted. It may be looked at when it isn't any more, too.
type Database struct{ db *database }

// DatabaseOf returns the database that v has mounted under a name.
func DatabaseOf(v *VFS, name string) (Database, error) {
	db, err := v.find(name)
	return Database{db}, err
}

// An Inside is what a database has in memory.
type Inside struct {
	Waiting, Handles, Readers int  // connections in the queue; open ones; those that hold the current state
	Writing                   bool // a connection is the writer
	Dirty, Hot, Torn          bool // see states
	Snapshot                  bool // the current state has one
	Journal, Live, StoredLive bool // the journal exists; can undo something; also by what is stored
	Kept                      int  // writes for which the batch has room
	Stored                    int64
	Failed                    bool
	ReadsAhead, Untidy        bool
}

// Look returns what d has in memory.
func (d Database) Look() (in Inside) {
	db := d.db
	in.Journal, in.Live, in.StoredLive = db.journal.there(), db.journal.active(), db.journal.isStoredLive()
	in.Stored = db.main.Stored()
	in.Kept, in.Failed, in.ReadsAhead, in.Untidy = cap(db.batch.Ops()), db.healthy() != nil, db.ahead != nil, db.untidy
	db.mu.Lock()
	defer db.mu.Unlock()
	in.Waiting, in.Handles, in.Readers = len(db.queue), db.handles, db.cur.refs
	in.Writing, in.Snapshot = db.owner.Load() != nil, db.cur.snap.Load() != nil
	in.Dirty, in.Hot, in.Torn = db.dirty, db.hot, db.torn
	return in
}

// Pending returns how many chunks were written and aren't stored. It is for the goroutine of the writer, also within a commit.
func (d Database) Pending() int { return d.db.main.Pending() + d.db.journal.file.Pending() }

// Stats returns the counts of d, when it isn't mounted any more, too.
func (d Database) Stats() Stats { return d.db.stats.read() }

// Told returns the metrics that count what s has, and the timers.
func Told(s *Stats) map[*metrics.Metric]int64 {
	told := map[*metrics.Metric]int64{}
	for _, c := range counted {
		told[c.metric] = c.get(s)
	}
	return told
}

var (
	ApplyTime   = metricApplyTime
	DurableTime = metricDurableTime
	Failures    = metricFailures
)

// OpenLog makes h enter WAL mode, and RemoveLog removes the log, as SQLite makes them do.
func OpenLog(h *Handle) (sqlitevfs.File, error) { return logMode{h}.open() }

func RemoveLog(ctx context.Context, h *Handle) error { return h.db.wal.delete(ctx) }

// WithoutSharedMemory makes the database of v behave as on a platform without shared memory. Call it before the
// database has connections.
func WithoutSharedMemory(v *VFS, name string) error {
	db, err := v.find(name)
	if err == nil {
		db.shm.offered = false
	}
	return err
}

// BeginsWrites returns how many connections may write a database, of all that are open in the process.
func BeginsWrites(actor any) (n int) {
	connections.Lock()
	defer connections.Unlock()
	for _, c := range connections.of {
		if c.writer != nil && any(c.writer.db.actor) == actor {
			n++
		}
	}
	return n
}

// LogOf returns the log of a database that is in WAL mode, as a connection of its own has it.
func LogOf(v *VFS, name string) (sqlitevfs.File, error) {
	db, err := v.find(name)
	h := &handle{db: db, ctx: context.Background(), session: session{settings: settings{sync: syncFull}, logged: true}}
	return &walFile{h: logMode{h}}, err
}

// Holding returns the database of a file.
func Holding(h *Handle) Database { return Database{h.db} }

// Actor returns the actor of d.
func (d Database) Actor() *actorstore.Actor { return d.db.actor }

// Leftover says whether a journal is there that must be rolled back.
func (in Inside) Leftover() bool { return in.Hot && in.Journal }

// ConnOf returns the connection of a transaction.
func ConnOf(tx *Tx) (*Conn, error) { return writerOf(tx.conn) }

// EndRows ends the rows that tx has open first, as its end does, and returns them.
func EndRows(tx *Tx) *rows {
	left := tx.c.open[0].(*rows)
	left.over(errRowsOver)
	return left
}

// Load returns the database of an actor, without a VFS. The caller closes it.
func Load(ctx context.Context, a *actorstore.Actor, opts *Options) (Database, error) {
	if opts != nil {
		all := opts.withDefaults()
		opts = &all
	}
	db, err := newDatabase(ctx, "x", chunked.OfActor(a), a, opts)
	return Database{db}, err
}

// Open opens the main file for a connection, and OpenJournal the journal.
func (d Database) Open(ctx context.Context, readOnly bool) *Handle {
	return d.db.openHandle(ctx, readOnly)
}

func (d Database) OpenJournal(ctx context.Context) sqlitevfs.File {
	d.db.journal.open(true)
	return &journalFile{db: d.db, ctx: ctx}
}

// Close lets go of the database, which has no open files.
func (d Database) Close() { d.db.close() }

// ReadError returns what SQLite sees of an error of reading.
func ReadError(h *Handle, err error) error { return h.readError(err) }

// TempBytes returns how many bytes the temporary files of a pool take.
func TempBytes(db *DB) int64 { return db.vfs.temp.used.Load() }
