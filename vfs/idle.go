package vfs

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// SQLite takes a third of a megabyte for a connection, and most databases that are open do nothing for most of the time.
// So what is below a connection that is in its pool, and was not used for Options.MaxIdleTime, is closed, and opened again when the
// pool gives the connection to a user. database/sql sees nothing of that. Its own SetConnMaxIdleTime would close every connection;
// these stay open if a new one would be another one (plain).

// idling are the connections of a pool that are in it and may be closed.
type idling struct {
	after time.Duration // negative: they stay open

	mu    sync.Mutex  // also held while one of them is closed, or a statement of one
	conns []*conn     // in the order in which they came back  +checklocks:mu
	timer *time.Timer // of sweep; nil before the first connection came back  +checklocks:mu
	armed bool        // the timer runs  +checklocks:mu
}

// put takes a connection that comes back to its pool.
func (p *idling) put(c *conn) {
	if p.after < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.since = time.Now()
	p.conns = append(p.conns, c)
	p.arm(p.after)
}

// take gives c up to its user. It returns false if it was closed already.
func (p *idling) take(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.conns, c); i >= 0 {
		p.conns = slices.Delete(p.conns, i, i+1)
	}
	return !c.gone
}

// drop gives c up to be closed. It returns false if it was closed already.
func (p *idling) drop(c *conn) bool {
	open := p.take(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed && len(p.conns) == 0 { // else the pool would stay in memory when it is closed
		p.armed = false
		p.timer.Stop()
	}
	return open
}

// arm makes the timer call sweep in d, or earlier if it runs already.
//
// +checklocks:p.mu
func (p *idling) arm(d time.Duration) {
	switch {
	case p.armed:
		return
	case p.timer == nil:
		p.timer = time.AfterFunc(d, p.sweep)
	default:
		p.timer.Reset(d)
	}
	p.armed = true
}

// sweep closes the connections that have been idle for long enough.
func (p *idling) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	for len(p.conns) > 0 {
		c := p.conns[0]
		if left := p.after - time.Since(c.since); left > 0 {
			p.arm(left)
			return
		}
		p.conns = slices.Delete(p.conns, 0, 1)
		if ask(c, false, func() bool { return p.plain(c) }) {
			p.leave(c)
		}
	}
}

// plain says whether a new connection would be as this one is. It isn't if anything that Options don't say was set on it, if the
// program was given what is below it, or if it has a lock or the log of WAL mode open: the last connection to close would remove the log.
func (p *idling) plain(c *conn) bool {
	h, raw := c.file, c.raw()
	if c.shown.Load() || h == nil || h.set || h.queryOnly != c.queryOnly || h.logged || h.level != sqlitevfs.LOCK_NONE {
		return false
	}
	attached := raw.DBName(2) != ""
	return !attached && !hasTemp(raw)
}

// hasTemp says whether c has temporary tables, views or triggers, or can't tell.
func hasTemp(c *sqlite3.Conn) bool {
	find := func(sql string, found func(*sqlite3.Stmt) bool) (is bool) {
		s, _, err := c.Prepare(sql)
		if err != nil {
			return true
		}
		for !is && s.Step() {
			is = found(s)
		}
		return s.Close() != nil || is
	}
	// It has the temporary database itself after its first use.
	return find("PRAGMA database_list", func(s *sqlite3.Stmt) bool { return s.ColumnText(1) == "temp" }) &&
		find("SELECT 1 FROM sqlite_temp_schema", func(*sqlite3.Stmt) bool { return true })
}

// leave closes what is below a connection that is in its pool.
//
// +checklocks:p.mu
func (p *idling) leave(c *conn) {
	c.file.left = true
	if err := c.closeBelow(); err != nil {
		c.db.log.Warn("vfs: closing an idle connection", slog.String("database", c.db.name), slog.Any("error", err))
	}
	c.gone, c.driverConn, c.file, c.told, c.kept, c.open = true, nil, nil, nil, nil, nil
	c.db.stats.idleClosed.Add(1)
	c.db.meter.flush(&c.db.stats)
}

// lasting says whether PRAGMA name=value leaves something on a connection, other than foreign_keys and query_only, which are looked at.
func lasting(name, value string) bool {
	switch name {
	case "application_id", "user_version", "schema_version", "default_cache_size", // are stored
		"table_info", "table_xinfo", "table_list", "index_info", "index_xinfo", "index_list", "foreign_key_list", "foreign_key_check",
		"integrity_check", "quick_check", "incremental_vacuum", "optimize", "wal_checkpoint", // do or tell something
		"defer_foreign_keys", // ends with the transaction
		"foreign_keys", beginHint:
		return false
	case "query_only":
		return value != "on" && value != "off"
	}
	return value != ""
}
