package vfs

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"unsafe"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/internal/sqliteguard"
	"github.com/greenroomdb/greenroom/kv"
)

// go-sqlite3 panics when SQLite is out of memory, and a function or hook in Go that SQLite
// calls may panic too. database/sql doesn't expect that of a driver: it would keep its
// locks. So every call of a pool's connection ends a panic here. What SQLite was doing
// wasn't finished, so nothing runs on that connection any more: its files are closed as
// if its process had died, which rolls back, and its memory is given back.

// errLeft is what a call that SQLite hasn't returned from will return.
var errLeft = errors.New("vfs: runtime.Goexit was called in a function or hook of SQLite's")

// guard is deferred by whatever calls SQLite, with its error, which is errLeft until it
// returns. A panic becomes that error; runtime.Goexit goes on.
func (c *conn) guard(err *error) {
	if p := recover(); p != nil && sqliteguard.Why(p) == sqliteguard.LongName {
		*err = errLongName
	} else if p != nil {
		*err = c.lose(p)
	} else if *err == errLeft {
		c.left.Store(true)
		*err = c.lose(errLeft)
	}
}

// Lose is for a program that uses the connection below a pool (sql.Conn.Raw): it gives the
// connection up because a call of SQLite panicked with p, and returns the error for that.
func (c *conn) Lose(p any) error { return c.lose(p) }

// lose gives the connection up because of a panic with p.
func (c *conn) lose(p any) error {
	c.spent.Store(true)
	lost := &lostError{panicked(p)}
	if h := c.file; h != nil && h.ended && h.staged == nil && !c.tx.open {
		lost.error = fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, lost.error)
	}
	c.lost = lost
	if !errors.Is(lost, ErrNoMemory) && !errors.Is(lost, ErrTooDeep) {
		c.db.logPanic(p)
	}
	if err := drop(c.raw(), c.file); err != nil {
		c.db.log.Error("vfs: giving up a connection", slog.String("database", c.db.name), slog.Any("error", err))
	}
	return lost
}

// raw returns the connection of go-sqlite3, nil while it is being opened.
func (c *conn) raw() *sqlite3.Conn {
	if c.driverConn == nil {
		return nil
	}
	return c.driverConn.Raw()
}

// usable returns an error if the connection was given up.
func (c *conn) usable() error {
	if c.lost != nil {
		return fmt.Errorf("vfs: the connection failed earlier: %w", c.lost)
	}
	return nil
}

// A lostError is why a connection was given up. It wraps kv.ErrUnknownOutcome if what the
// statement did may be committed.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// isLost says whether err is that of a connection that was given up.
func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// panicked returns the error for a panic with p.
func panicked(p any) error {
	switch sqliteguard.Why(p) {
	case sqliteguard.NoMemory:
		return &causedError{sqlite3.NOMEM, ErrNoMemory}
	case sqliteguard.TooDeep:
		return &causedError{sqlite3.ERROR, ErrTooDeep}
	}
	if err, ok := p.(error); ok {
		return fmt.Errorf("vfs: panic: %w", err)
	}
	return fmt.Errorf("vfs: panic: %v", p)
}

// drop closes the files of raw, h first if that is one of them, and gives back its
// memory, without asking SQLite. raw is of no use afterwards.
//
// sqlite3_close doesn't help: statements that SQLite itself has begun keep it from closing,
// and what it finds in memory can't be trusted. go-sqlite3 has what it takes, but doesn't
// export it; the memory is not the garbage collector's.
func drop(raw *sqlite3.Conn, h *handle) (err error) {
	defer func() {
		if p := recover(); p != nil { // of a function's io.Closer
			err = errors.Join(err, panicked(p))
		}
	}()
	if h != nil {
		err = h.Close()
	}
	if raw == nil {
		return err
	}
	wrp := reflect.ValueOf(raw).Elem().FieldByName("wrp")
	if !wrp.IsValid() || wrp.IsNil() {
		return errors.Join(err, errNotFreed)
	}
	instance, ok := reflect.NewAt(wrp.Type(), unsafe.Pointer(wrp.UnsafeAddr())).Elem().Interface().(io.Closer)
	if !ok {
		return errors.Join(err, errNotFreed)
	}
	return errors.Join(err, instance.Close())
}

var errNotFreed = fmt.Errorf("%w: go-sqlite3's connections are not what they were, and the memory of this one isn't given back", ErrUnsupported)

// closeRaw is deferred by what uses *raw, nil if it wasn't opened, without a pool. A panic
// becomes its error.
func closeRaw(raw **sqlite3.Conn, err *error) {
	if p := recover(); p != nil {
		*err = errors.Join(panicked(p), drop(*raw, nil))
		return
	}
	*err = errors.Join(*err, (*raw).Close())
}

// IsValid is driver.Validator's: a connection that is spent is closed where it would go
// back to the pool. So is one that its user has left within a transaction, which would keep
// others out, or with other foreign keys than it had.
func (c *conn) IsValid() bool {
	if c.spent.Load() {
		return false
	}
	valid := ask(c, false, func() bool {
		keys, err := c.raw().Config(sqlite3.DBCONFIG_ENABLE_FKEY)
		return err == nil && keys == c.keys && c.raw().GetAutocommit()
	})
	if valid {
		c.pool.put(c)
	}
	return valid
}

// ResetSession is driver.SessionResetter's: it is called when the connection is taken from its pool. If what was closed can't be opened, database/sql
// gives the connection up, and another one says why.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.pool.take(c) {
		if c.lost != nil { // while it was looked at
			return driver.ErrBadConn
		}
		return nil
	}
	if err := c.connect(ctx); err != nil {
		return driver.ErrBadConn
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.gone = false
	return nil
}

// Close is driver.Conn's. It closes statements that a user of the raw connection left open; nothing
// else that is open keeps the connection.
func (c *conn) Close() error {
	if !c.pool.drop(c) {
		return nil
	}
	return c.closeBelow()
}

// closeBelow closes what is below c.
func (c *conn) closeBelow() (err error) {
	if c.lost != nil {
		return nil // its files and its memory are gone
	}
	err = errLeft
	defer c.guard(&err)
	for _, s := range slices.Collect(c.raw().Stmts()) {
		_ = s.Close() // the error is that of its last step
	}
	if err := c.driverConn.Close(); err == nil {
		return nil
	}
	return drop(c.raw(), c.file)
}
