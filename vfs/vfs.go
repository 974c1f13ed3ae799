// Package vfs keeps SQLite databases in the keys of actors: it is a SQLite VFS
// whose main file, rollback journal and write-ahead log are chunks of 4096 bytes in an
// actor's key-value space.
//
// A transaction lands as one atomic engine commit, readers see the last
// committed state from a snapshot and never wait for the writer, and a cached
// read costs nothing. When a transaction is too large for one commit, SQLite's
// rollback journal takes over, stored in the same keys.
//
// It is not a SQLite: SQL, pages and B-trees are go-sqlite3's, and everything
// that SQLite promises about SQL holds here. It is not shared between
// processes: an actor has one owner, and all connections to its database are
// that owner's.
//
// Open returns a database/sql pool for one actor. A VFS with several actors
// mounted, for plain sql.Open or the go-sqlite3 API, is made with New.
package vfs

// Files, from the top down:
//
//	pages.go export.go update.go open.go check.go checksqlite.go conn.go stmt.go rows.go lost.go idle.go kept.go declared.go
//	recover.go vfs.go handle.go lock.go attach.go logfile.go logmode.go rollbackmode.go journalfile.go
//	database.go leftover.go log.go writer.go journal.go committer.go
//	counter.go states.go pin.go turns.go staged.go session.go settings.go cause.go base.go
//	storedschema.go schema.go statspragma.go shm.go temp.go nolock.go mounted.go metrics.go stats.go options.go errors.go

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/readahead"
)

// A VFS gives SQLite the databases of actors, each under a name. It is safe for
// concurrent use.
type VFS struct {
	opts Options
	temp *tempRoom

	mu         sync.Mutex
	databases  map[string]*database // +checklocks:mu
	mounting   map[string]bool      // names that are taken already  +checklocks:mu
	registered string               // +checklocks:mu
}

// New returns a VFS with nothing mounted.
func New(opts *Options) *VFS {
	o := opts.withDefaults()
	return &VFS{opts: o, temp: &tempRoom{most: o.TempBytes}, databases: map[string]*database{}, mounting: map[string]bool{}}
}

// Register makes SQLite know v as name, the "vfs" parameter of a URI. Names are
// process-wide; one that is taken is errRegistered.
func (v *VFS) Register(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if name == "" || v.registered != "" || sqlitevfs.Find(name) != nil {
		return fmt.Errorf("%w: %q", errRegistered, name)
	}
	top := sqlitevfs.VFS(fileNames{v})
	if v.opts.Wrap != nil {
		top = v.opts.Wrap(top)
	}
	sqlitevfs.Register(name, top)
	v.registered = name
	return nil
}

// Unregister takes back Register. It returns ErrBusy while connections are open:
// go-sqlite3 needs the VFS of a connection to the end.
func (v *VFS) Unregister() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, db := range v.databases {
		if err := db.idle(); err != nil {
			return err
		}
	}
	if v.registered != "" {
		sqlitevfs.Unregister(v.registered)
		v.registered = ""
	}
	return nil
}

// Mount makes the database of a available as file:/name. It reads what it must
// know (a few small reads; on a far engine one, of what is read first), and finishes what a crash left unfinished: it rolls back a
// journal, unless that is encrypted, which the first connection that can read it does.
// When that fails Mount does, with the reason, and the journal stays. The caller keeps
// a open until Unmount.
//
// Nothing else may write the keys of a's database while it is mounted; mounting a
// second time, here or elsewhere, is ErrMounted.
func (v *VFS) Mount(ctx context.Context, name string, a *actorstore.Actor) error {
	return v.mount(ctx, name, chunked.OfActor(a), a)
}

// mountView makes the database that view shows available as file:/name, for
// reading. The caller keeps view open until Unmount.
func (v *VFS) mountView(ctx context.Context, name string, view *actorstore.View) error {
	return v.mount(ctx, name, readahead.OfView(view), nil)
}

func (v *VFS) mount(ctx context.Context, name string, src chunked.Source, a *actorstore.Actor) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := v.reserve(name); err != nil {
		return err
	}
	err := claim(a)
	var db *database
	if err == nil {
		if db, err = newDatabase(ctx, name, src, a, &v.opts); err != nil {
			unclaim(a)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.mounting, name)
	if err == nil {
		v.databases[name] = db
	}
	return err
}

// reserve takes name for a database that is about to be mounted. To read one, or to
// roll back its journal, may take long, and must not hold up the others.
func (v *VFS) reserve(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.databases[name] != nil || v.mounting[name] {
		return fmt.Errorf("%w: %q", ErrMounted, name)
	}
	v.mounting[name] = true
	return nil
}

// maxName bounds a database name: SQLite's path limit, less its suffixes.
const maxName = 1000

// checkName refuses names that SQLite would change or that could be mistaken for
// a companion file.
func checkName(name string) error {
	bad := name == "" || len(name) > maxName || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\x00?#%")
	for _, s := range []string{"-journal", "-wal", "-shm"} {
		bad = bad || strings.HasSuffix(name, s)
	}
	if bad {
		return fmt.Errorf("%w: %q", ErrName, name)
	}
	return nil
}

// Unmount takes back Mount and MountView. It returns ErrBusy while connections
// to the database are open, and ErrNotMounted for a name that isn't mounted.
func (v *VFS) Unmount(name string) error {
	if db := v.lookup(name); db != nil && db.idle() == nil {
		db.keepHints(context.Background()) // without v.mu: the engine may be far
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	db := v.databases[name]
	if db == nil {
		return fmt.Errorf("%w: %q", ErrNotMounted, name)
	}
	if err := db.idle(); err != nil {
		return err
	}
	db.close()
	delete(v.databases, name)
	unclaim(db.actor)
	return nil
}

// Stats returns the counts of a mounted database.
func (v *VFS) Stats(name string) (Stats, error) {
	db, err := v.find(name)
	if err != nil {
		return Stats{}, err
	}
	return db.stats.read(), nil
}

// find returns the database that is mounted as name, with or without the
// leading slash that a URI gives it.
func (v *VFS) find(name string) (*database, error) {
	if db := v.lookup(name); db != nil {
		return db, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNotMounted, name)
}

// lookup is find for the calls of every transaction: nil is cheaper than an error.
func (v *VFS) lookup(name string) *database {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.databases[strings.TrimLeft(name, "/")]
}

// fileNames is what SQLite sees of a VFS.
type fileNames struct{ *VFS }

var _ sqlitevfs.VFSFilename = fileNames{}

// FullPathname implements sqlitevfs.VFS: names are what they are.
func (v fileNames) FullPathname(name string) (string, error) { return name, nil }

// Open implements sqlitevfs.VFS.
func (v fileNames) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	if name == "" || flags&sqlitevfs.OPEN_DELETEONCLOSE != 0 {
		return &tempFile{bound: v.opts.TempMemory, dir: v.opts.TempDir, space: v.temp}, flags, nil
	}
	var file sqlitevfs.File
	var err error
	switch {
	case flags&sqlitevfs.OPEN_MAIN_DB != 0:
		file, flags, err = v.openMain(name, flags)
	case flags&sqlitevfs.OPEN_MAIN_JOURNAL != 0:
		file, err = v.openJournal(name, flags)
	case flags&sqlitevfs.OPEN_SUPER_JOURNAL != 0:
		err = fmt.Errorf("%w: a transaction that writes several attached databases", ErrUnsupported)
	default:
		err = fmt.Errorf("%w: file %q, open flags %#x", ErrUnsupported, name, uint32(flags))
	}
	return file, flags, sqliteError(err, sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN))
}

func (v *VFS) openMain(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	v.mu.Lock() // until the handle is counted: Unmount must see it
	defer v.mu.Unlock()
	db := v.databases[strings.TrimLeft(name, "/")]
	if db == nil {
		return nil, flags, fmt.Errorf("%w: %q", ErrNotMounted, name)
	}
	if db.actor == nil && flags&sqlitevfs.OPEN_READONLY == 0 {
		flags = flags&^(sqlitevfs.OPEN_READWRITE|sqlitevfs.OPEN_CREATE) | sqlitevfs.OPEN_READONLY
	}
	if flags&sqlitevfs.OPEN_CREATE == 0 && !db.exists() {
		return nil, flags, fmt.Errorf("vfs: %q: %w", name, errNoDatabase)
	}
	readOnly := flags&sqlitevfs.OPEN_READONLY != 0
	return db.openHandle(context.Background(), readOnly), flags, nil
}

func (v *VFS) openJournal(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, error) {
	db, err := v.find(strings.TrimSuffix(name, "-journal"))
	if err != nil {
		return nil, err
	}
	if err := db.healthy(); err != nil {
		return nil, db.ownerError(err, sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN))
	}
	if !db.journal.open(flags&sqlitevfs.OPEN_CREATE != 0) {
		return nil, fmt.Errorf("vfs: %q: %w", name, errNoDatabase)
	}
	return &journalFile{db: db, ctx: context.Background(), readOnly: flags&sqlitevfs.OPEN_READONLY != 0}, nil
}

// OpenFilename implements sqlitevfs.VFSFilename: a log belongs to the connection that
// opens it, and so does the key of a journal, which only the name knows.
func (v fileNames) OpenFilename(name *sqlitevfs.Filename, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	if flags&sqlitevfs.OPEN_WAL == 0 {
		if flags&sqlitevfs.OPEN_MAIN_JOURNAL != 0 && flags&sqlitevfs.OPEN_READWRITE != 0 {
			if err := v.guardJournal(name); err != nil {
				return nil, flags, err
			}
		}
		return v.Open(name.String(), flags)
	}
	h, ok := vfsutil.UnwrapFile[*handle](name.DatabaseFile())
	if !ok {
		err := fmt.Errorf("%w: the log of a database that another VFS hides", ErrUnsupported)
		return nil, flags, sqliteError(err, sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN))
	}
	if h.readOnly {
		flags = flags&^(sqlitevfs.OPEN_READWRITE|sqlitevfs.OPEN_CREATE) | sqlitevfs.OPEN_READONLY
	}
	if err := (logMode{h}).guard(name); err != nil {
		return nil, flags, err
	}
	file, err := logMode{h}.open()
	if err != nil {
		return nil, flags, h.sqliteError(err, sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN))
	}
	return file, flags, nil
}

// Delete implements sqlitevfs.VFS. Only the journal and the log are ever deleted by
// SQLite.
func (v fileNames) Delete(name string, _ bool) error {
	if base, ok := strings.CutSuffix(name, "-wal"); ok {
		db, err := v.find(base)
		if err == nil {
			err = db.wal.delete(context.Background())
		}
		return sqliteError(err, sqlite3.IOERR_DELETE)
	}
	base, ok := strings.CutSuffix(name, "-journal")
	if !ok {
		return sqlite3.IOERR_DELETE_NOENT
	}
	db, err := v.find(base)
	if err != nil {
		return sqliteError(err, sqlite3.IOERR_DELETE)
	}
	if !db.journal.there() {
		return sqlite3.IOERR_DELETE_NOENT
	}
	if err = db.finishJournal(context.Background(), true); err != nil {
		db.disarm(err)
	}
	return db.ownerError(err, sqlite3.IOERR_DELETE)
}

// Access implements sqlitevfs.VFS. A journal is reported only when it is left
// over: that of a live writer concerns the writer alone.
func (v fileNames) Access(name string, _ sqlitevfs.AccessFlag) (bool, error) {
	if base, ok := strings.CutSuffix(name, "-journal"); ok {
		db := v.lookup(base)
		return db != nil && db.leftover(), nil
	}
	if base, ok := strings.CutSuffix(name, "-wal"); ok {
		db := v.lookup(base)
		return db != nil && db.wal.there(), nil
	}
	db := v.lookup(name)
	return db != nil && db.exists(), nil
}
