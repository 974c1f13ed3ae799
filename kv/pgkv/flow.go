package pgkv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroomdb/greenroom/kv"
)

// A flow is a transaction on its way: a pipeline whose last request is COMMIT, or one
// that waits for what was committed. Nothing is waited for in between, so that what the
// transaction holds never depends on how fast this host is.
type flow struct {
	db   *DB
	c    *conn
	p    *pgconn.Pipeline
	sent []func(columns [][]byte) // for each unanswered request: the function that takes its rows
	// committing says that COMMIT may have reached the server.
	committing bool
	buffered   int // bytes
	// staging says that requests are kept back; see stage.go.
	staging bool
	kept    []request
	err     error
	stop    func() // ends the watch over the context
}

// start begins a transaction on c. end must follow.
func (db *DB) start(ctx context.Context, c *conn, size int) *flow {
	c.warned = false
	// The driver would close the connection when the context ends. Here it is the
	// server that is asked, because its answer is worth waiting for.
	f := &flow{db: db, c: c, p: c.pg.StartPipeline(context.Background())}
	f.stop = db.guard(ctx, c, db.opts.Timeout+time.Duration(size>>20)*time.Second)
	return f
}

// maxMessage is what the protocol's limit of 1 GiB leaves for the parameters of a request.
const maxMessage = 1<<30 - 1<<16

// flushAt is how many bytes are put together before they are sent, of what can be done
// before the gate; what comes behind it isn't sent in pieces.
const flushAt = 1 << 20

// send adds a request to the transaction. The parameters are copied.
func (f *flow) send(s *statement, params ...[]byte) { f.ask(s, nil, params...) }

// ask is send for a request with an answer, whose rows go to row.
func (f *flow) ask(s *statement, row func(columns [][]byte), params ...[]byte) {
	switch {
	case f.err != nil:
	case f.staging:
		f.keep(request{s, params, row})
	default:
		f.now(s, row, params...)
	}
}

// now is ask for what isn't kept back.
func (f *flow) now(s *statement, row func(columns [][]byte), params ...[]byte) {
	if f.err != nil {
		return
	}
	size := 0
	for _, b := range params {
		size += len(b)
	}
	if size > f.db.message {
		// To try again would not help, as it would where a connection breaks.
		f.err = fmt.Errorf("%w: a request of %d bytes", kv.ErrTooLarge, size)
		return
	}
	if s.name != "" {
		f.p.SendQueryPrepared(s.name, params, binaryFormat, binaryFormat)
	} else {
		f.p.SendQueryParams(s.text, params, s.oids, binaryFormat, binaryFormat)
	}
	f.sent = append(f.sent, row)
	f.buffered += size
	if f.staging && f.buffered > flushAt {
		f.buffered = 0
		f.err = f.p.Flush()
	}
}

// answers reads the answers to all requests.
func (f *flow) answers() {
	for _, row := range f.sent {
		if f.err != nil {
			break
		}
		if f.err = f.result(row); code(f.err) != "" {
			f.committing = false // the server skips everything behind it
		}
	}
	f.sent = f.sent[:0]
}

// end sends COMMIT and waits for the answers to everything. It returns nil if the
// transaction was committed, errDoubt if that isn't known, and any other error if it
// was not. With wait it also waits for stable storage, which the transaction itself
// did not.
func (f *flow) end(ctx context.Context, wait bool) error {
	f.release()
	if f.err == nil {
		f.p.SendQueryPrepared(f.c.sql.commit.name, nil, binaryFormat, binaryFormat)
		if wait {
			// A transaction of its own. It ends, and waits, with the synchronization.
			f.p.SendQueryPrepared(f.c.sql.sync.name, nil, binaryFormat, binaryFormat)
		}
		f.committing = true
		f.err = f.p.Sync()
	}
	f.answers()
	tag := ""
	if f.err == nil {
		tag, f.err = f.last()
	}
	if f.err == nil && wait {
		if f.err = f.result(nil); f.err == nil {
			_, f.err = f.p.GetResults()
		}
	}
	cerr := f.p.Close()
	f.stop()
	f.c.look()
	if f.err == nil && cerr != nil && (tag == "" || wait) {
		f.err = cerr
	}
	return f.verdict(ctx, tag)
}

// result reads the answer to the next request.
func (f *flow) result(row func(columns [][]byte)) error {
	r, err := f.p.GetResults()
	if err != nil {
		return err
	}
	reader, ok := r.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("the server left out an answer")
	}
	for row != nil && reader.NextRow() {
		row(reader.Values())
	}
	_, err = reader.Close()
	return err
}

// last reads the answer to COMMIT: its name, if it was done.
func (f *flow) last() (string, error) {
	r, err := f.p.GetResults()
	if err != nil {
		return "", err
	}
	reader, ok := r.(*pgconn.ResultReader)
	if !ok {
		return "", fmt.Errorf("the server left out an answer")
	}
	tag, err := reader.Close()
	return tag.String(), err
}

// verdict says what became of the transaction.
func (f *flow) verdict(ctx context.Context, tag string) error {
	if f.err == nil && tag == "COMMIT" && !f.c.warned {
		f.c.staged = f.c.staged || len(f.kept) > 0
		return nil
	}
	// Whatever it is, this connection has seen something unusual: if a request to
	// cancel is still on its way it must not meet the next transaction.
	switch {
	case f.c.bad:
	case code(f.err) == "" || code(f.err) == codeCanceled || f.c.warned:
		f.c.kill()
	case code(f.err) == codeReadOnly:
		f.c.kill()
		f.db.writes.drop(time.Now()) // the others lead to the same server
	case f.c.pg.TxStatus() != 'I':
		f.rollBack()
	}
	var pe *pgconn.PgError
	switch {
	case f.committing && tag == "" && errors.As(f.err, &pe) && pe.Severity == "ERROR" && pe.Code[:2] == "40":
		return f.err // refused at the last moment
	case f.committing:
		// Also when COMMIT is done and the server has warned: then it was told to wait
		// no longer for standbys, and what it has may not last.
		return fmt.Errorf("%w: %w", errDoubt, orUnknown(f.err))
	case code(f.err) == codeCanceled && ctx.Err() != nil:
		return ctx.Err()
	case code(f.err) == codeCanceled:
		return &lostError{errors.New("the transaction was canceled")}
	case errors.Is(f.err, kv.ErrTooLarge):
		return f.err
	case code(f.err) == "":
		return &lostError{f.err}
	}
	return f.err
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("the server did not wait for its standbys")
	}
	return &lostError{err}
}

// rollBack ends a failed transaction.
func (f *flow) rollBack() {
	f.db.trips.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if f.c.exec(ctx, f.c.sql.rollback) != nil {
		f.c.bad = true
	}
}

// grace is how long to wait for an answer after a transaction was to be stopped.
const grace = 2 * time.Second

// guard watches over a transaction: when ctx ends, or the limit is reached, it asks
// the server to stop it, and a little later breaks the connection. stop ends the
// watch, and leaves the connection bad if the server was asked.
func (db *DB) guard(ctx context.Context, c *conn, limit time.Duration) (stop func()) {
	limited, cancel := context.WithTimeout(ctx, limit)
	done := make(chan struct{})
	finished := make(chan struct{})
	ended := context.AfterFunc(limited, func() {
		defer close(finished)
		patience, cancel := context.WithTimeout(context.Background(), db.grace)
		defer cancel()
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_ = c.pg.CancelRequest(patience) // what counts is the answer to the transaction
		}()
		select {
		case <-done:
		case <-patience.Done():
			_ = c.pg.Conn().SetDeadline(time.Now()) // its reader finds out
		}
		cancel()
		<-asked
	})
	return func() {
		close(done)
		if !ended() {
			<-finished
			c.bad = true
		}
		cancel()
	}
}
