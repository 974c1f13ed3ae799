package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A place is where a SQLite database lives. What a workload does to a connection
// is the same wherever it leads, so that the places alone make the difference.
type place interface {
	// connect opens a connection with synchronous=FULL; the caller closes it
	// before the place is reopened or closed.
	connect() (*sqlite3.Conn, error)
	// reopen drops what the place holds in memory, as a restart does.
	reopen(ctx context.Context) error
	// counts returns the calls of the engine since the place was opened.
	counts() faultkv.Counts
	close() error
}

// connect opens a connection and runs pragmas on it.
func connect(dsn string, pragmas ...string) (*sqlite3.Conn, error) {
	c, err := sqlite3.Open(dsn)
	if err != nil {
		return nil, err
	}
	for _, p := range pragmas {
		if err := c.Exec("PRAGMA " + p); err != nil {
			return nil, errors.Join(fmt.Errorf("PRAGMA %s: %w", p, err), c.Close())
		}
	}
	return c, nil
}

// A filePlace is a file, through the VFS that go-sqlite3 brings.
type filePlace struct {
	path string
	mode string // journal_mode
}

func (p *filePlace) connect() (*sqlite3.Conn, error) {
	return connect(p.path, "journal_mode="+p.mode, "synchronous=FULL")
}

// reopen has nothing to do: closing the last connection forgot everything but
// the operating system's cache.
func (p *filePlace) reopen(context.Context) error { return nil }

func (p *filePlace) counts() faultkv.Counts { return faultkv.Counts{} }

func (p *filePlace) close() error { return nil }

// A memoryPlace is a database of go-sqlite3's VFS memdb, which keeps its pages in memory,
// knows nothing of the disk and is what a VFS in Go can cost at least.
type memoryPlace struct {
	name string // unique in the process
}

// openMemory makes an empty database whose name is the site's folder.
func openMemory(at site) *memoryPlace {
	p := &memoryPlace{strings.TrimLeft(filepath.ToSlash(at.dir), "/")}
	memdb.Create(p.name, nil)
	return p
}

func (p *memoryPlace) connect() (*sqlite3.Conn, error) {
	// Connections share a database whose name begins with a slash.
	return connect("file:/"+(&url.URL{Path: p.name}).EscapedPath()+"?vfs=memdb", "synchronous=FULL")
}

// reopen has nothing to do: memory is all there is.
func (p *memoryPlace) reopen(context.Context) error { return nil }

func (p *memoryPlace) counts() faultkv.Counts { return faultkv.Counts{} }

func (p *memoryPlace) close() error {
	memdb.Delete(p.name)
	return nil
}

// An actorPlace is an actor's database, in an engine that counts.
type actorPlace struct {
	at     site
	engine kv.Engine
	count  *faultkv.Engine
	store  *actorstore.Store
	actor  *actorstore.Actor
	db     *mounted
}

// openActor opens the database of an actor in a new engine.
func openActor(ctx context.Context, at site) (*actorPlace, error) {
	p := &actorPlace{at: at}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// open opens everything from the engine up that is not open yet.
func (p *actorPlace) open(ctx context.Context) (err error) {
	if p.engine == nil {
		if p.engine, err = openEngine(ctx, p.at); err != nil {
			return err
		}
	}
	p.count = faultkv.New(p.engine)
	if p.store, err = openStore(ctx, p.count); err != nil {
		return err
	}
	if p.actor, err = p.store.Named(ctx, "bench", nil); err != nil {
		return err
	}
	p.db, err = mount(ctx, p.actor)
	return err
}

// maxStorage is the quota of actors: a measurement that runs for long enough outgrows the
// default one.
const maxStorage = 1 << 40

// openStore opens the actors of an engine.
func openStore(ctx context.Context, engine kv.Engine) (*actorstore.Store, error) {
	limits := batch.DefaultLimits()
	limits.Storage = maxStorage
	return actorstore.Open(ctx, engine, &actorstore.Options{Limits: limits})
}

func (p *actorPlace) connect() (*sqlite3.Conn, error) { return p.db.connect("synchronous=FULL") }

// reopen also opens the engine again, unless its data would be lost.
func (p *actorPlace) reopen(ctx context.Context) error {
	if err := p.shut(); err != nil {
		return err
	}
	if p.at.engine != engineMem {
		if err := p.closeEngine(); err != nil {
			return err
		}
	}
	return p.open(ctx)
}

func (p *actorPlace) counts() faultkv.Counts { return p.count.Counts() }

func (p *actorPlace) close() error { return errors.Join(p.shut(), p.closeEngine()) }

// shut closes everything above the engine that is open.
func (p *actorPlace) shut() error {
	var errs []error
	if p.db != nil {
		errs = append(errs, p.db.close())
		p.db = nil
	}
	if p.actor != nil {
		errs = append(errs, p.actor.Close())
		p.actor = nil
	}
	if p.store != nil {
		errs = append(errs, p.store.Close())
		p.store = nil
	}
	return errors.Join(errs...)
}

func (p *actorPlace) closeEngine() error {
	if p.engine == nil {
		return nil
	}
	engine := p.engine
	p.engine = nil
	return engine.Close()
}

// databaseName is the name under which a database is mounted.
const databaseName = "bench.db"

// A mounted is the database of one actor, ready for connections.
type mounted struct {
	vfs  *vfs.VFS
	name string // SQLite's for vfs, unique in the process
}

// mount makes the database of a ready. The caller keeps a open until close.
func mount(ctx context.Context, a *actorstore.Actor) (*mounted, error) {
	m := &mounted{vfs: vfs.New(nil)}
	m.name = fmt.Sprintf("greenroom-bench-%p", m)
	if err := m.vfs.Mount(ctx, databaseName, a); err != nil {
		return nil, err
	}
	if err := m.vfs.Register(m.name); err != nil {
		return nil, errors.Join(err, m.vfs.Unmount(databaseName))
	}
	return m, nil
}

func (m *mounted) connect(pragmas ...string) (*sqlite3.Conn, error) {
	return connect("file:/"+databaseName+"?vfs="+url.QueryEscape(m.name), pragmas...)
}

// close follows the Close of all connections.
func (m *mounted) close() error {
	return errors.Join(m.vfs.Unregister(), m.vfs.Unmount(databaseName))
}
