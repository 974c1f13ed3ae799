package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
	"github.com/greenroomdb/greenroom/vfs"
)

// All that an actor of RivetKit 2.3 has is one SQLite database, whose pages its program reads here, and stores here when a transaction is over. SQLite runs in the program. The pages
// lie where the database of an actor of RivetKit 2.1 and 2.2 does (vfs.Pages), and beside them the head, how many commits there were, which each commit stores, too.
//
// The head makes a commit whose answer is lost safe: the program takes it for one that wasn't made, and comes with the head of before. If it was made the heads differ. The program is told so and
// gives the actor up, which then starts with what is stored.

const (
	// maxStage bounds the pages of a commit that comes in parts, in bytes.
	maxStage = 64 << 20
	// maxAsked bounds the pages that are read at once: an answer is half of the largest message.
	maxAsked = 4096
)

// Errors that programs know. They look at the text of the first two.
var (
	errNoSuchActor  = &rp.SQLiteError{Group: "actor", Code: "not_found", Message: "actor does not exist"}
	errNoDatabase   = &rp.SQLiteError{Group: "depot", Code: "database_not_found", Message: "sqlite database was not found in this bucket branch"}
	errHead         = &rp.SQLiteError{Group: "depot", Code: "head_fence_mismatch", Message: "the database has another head: it was written since"}
	errStage        = &rp.SQLiteError{Group: "depot", Code: "stage_not_found", Message: "there is no such commit under way"}
	errStageSize    = &rp.SQLiteError{Group: "depot", Code: "commit_too_large", Message: "the transaction is too large for one commit"}
	errCut          = &rp.SQLiteError{Group: "sqlite", Code: "remote_execution_failed", Message: "the engine was started anew, which may have ended a transaction: the actor starts anew, too"}
	errBusyStages   = &rp.SQLiteError{Group: "depot", Code: "overloaded", Message: "too much of other commits is under way"}
	errBusyDatabase = &rp.SQLiteError{Group: "depot", Code: "overloaded", Message: "too many requests of the actor wait"}
)

// actorPages is the database of an actor, as long as one start of the actor lasts. It is for one goroutine at a time.
type actorPages struct {
	handle     *actorstore.Actor
	log        *slog.Logger
	generation uint32
	life       context.Context // of the span
	db         *vfs.Pages      // nil until it is wanted
	head       uint64
	stage      *stage     // nil for none
	staged     *room      // what the stages of all actors take
	sql        *remoteSQL // nil until the program sends SQL
	ran        bool       // this engine has run SQL in this start
	cut        bool       // an engine before has, whose end may have rolled back a part of it
}

// A span ends the SQL of one start of an actor with that. The zero span is ready for use.
type span struct {
	ctx context.Context
	end context.CancelFunc
}

// of returns the context of the SQL, which ends with ctx at the latest.
func (s *span) of(ctx context.Context) context.Context {
	if s.ctx == nil {
		s.ctx, s.end = context.WithCancel(ctx)
	}
	return s.ctx
}

// over says that the start has ended.
func (s *span) over() {
	if s.ctx != nil {
		s.end()
		*s = span{}
	}
}

// A stage is a commit that comes in parts. It is nowhere but in memory until it is made.
type stage struct {
	segments map[uint32][]rp.Page
	bytes    int
}

// A room bounds what many take of one thing.
type room struct {
	most  int64
	taken atomic.Int64
}

// take takes n more, unless there aren't as many. A negative n gives back.
func (r *room) take(n int) bool {
	if r.taken.Add(int64(n)) > r.most && n > 0 {
		r.taken.Add(int64(-n))
		return false
	}
	return true
}

// forget gives up the commit that comes in parts, if there is one.
func (p *actorPages) forget() {
	if p.stage != nil {
		p.staged.take(-p.stage.bytes)
		p.stage = nil
	}
}

// at returns the database as it is for a start of the actor.
func (p *actorPages) at(generation uint32, life context.Context, h *actorstore.Actor, e *core, log *slog.Logger) *actorPages {
	if p.handle != h || p.generation != generation {
		p.end()
		*p = actorPages{handle: h, log: log, generation: generation, life: life, staged: &e.staged}
	}
	return p
}

// open opens the pages of the database, and reads its head.
func (p *actorPages) open(ctx context.Context) error {
	if p.sql != nil {
		p.end() // the program has changed its mind
	}
	if p.db != nil {
		return nil
	}
	err := p.readHead(ctx)
	if err == nil {
		p.db, err = vfs.OpenPages(ctx, p.handle, func() error { return p.advance(ctx, new(batch.Batch)) }, nil)
	}
	return err
}

// advance makes the head grow by a commit of its own, with b: what a program knows of pages is old from then on.
func (p *actorPages) advance(ctx context.Context, b *batch.Batch) error {
	b.Put(rivetstore.HeadKey(), rivetstore.AppendHead(nil, p.head+1))
	err := p.handle.Commit(ctx, b)
	if err == nil {
		p.head++
	}
	return err
}

// readHead reads the head that is stored.
func (p *actorPages) readHead(ctx context.Context) (err error) {
	p.head, err = p.readNumber(ctx, rivetstore.HeadKey())
	return err
}

// readNumber reads a number that is stored, 0 if it isn't.
func (p *actorPages) readNumber(ctx context.Context, key []byte) (uint64, error) {
	value, err := p.handle.Get(ctx, key, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return rivetstore.ParseHead(value)
}

// read answers GetPages.
func (p *actorPages) read(ctx context.Context, q *rp.GetPages) (got rp.Pages, err error) {
	if err := p.fenced(ctx, q.Fence.Head); err != nil {
		return got, err
	}
	if len(q.Numbers) > maxAsked {
		return got, vfs.ErrPage
	}
	if p.db.Count() == 0 {
		return got, errNoDatabase
	}
	pages, err := p.db.Read(ctx, q.Numbers)
	if err != nil {
		return got, err
	}
	for i, n := range q.Numbers {
		got.Pages = append(got.Pages, rp.Page{Number: n, Data: pages[i]})
	}
	got.Head = rp.Some(p.head)
	return got, nil
}

// fenced opens the database, and refuses a head that it hasn't.
func (p *actorPages) fenced(ctx context.Context, head rp.Optional[uint64]) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	if head.Set && head.Value != p.head {
		return errHead
	}
	return nil
}

// commit makes a commit, which is durable when it returns.
func (p *actorPages) commit(ctx context.Context, pages []rp.Page, count uint32) (head uint64, err error) {
	defer p.forget()
	list := make([]vfs.Page, len(pages))
	for i, page := range pages {
		list[i] = vfs.Page(page)
	}
	var b batch.Batch
	if err := p.db.Stage(&b, list, count); err != nil {
		return 0, err
	}
	b.Put(rivetstore.HeadKey(), rivetstore.AppendHead(nil, p.head+1))
	if err := p.handle.Commit(ctx, &b); err != nil {
		return 0, err
	}
	p.head++
	return p.head, nil
}

// begin begins a commit in parts, and returns the head that it will make.
func (p *actorPages) begin(ctx context.Context, q *rp.BeginStage) (uint64, error) {
	if err := p.fenced(ctx, q.Fence.Head); err != nil {
		return 0, err
	}
	p.forget()
	p.stage = &stage{segments: map[uint32][]rp.Page{}}
	return p.head + 1, nil
}

// add adds a part. One that came before it replaces.
func (p *actorPages) add(q *rp.StageSegment) (uint64, error) {
	if p.db == nil || p.stage == nil || q.TxID != p.head+1 {
		return 0, errStage
	}
	if slices.ContainsFunc(q.Pages, func(page rp.Page) bool { return len(page.Data) != vfs.PageSize }) {
		return 0, vfs.ErrPage
	}
	n := sizeOfPages(q.Pages)
	more := n - sizeOfPages(p.stage.segments[q.First])
	switch {
	case p.stage.bytes+more > maxStage, len(p.stage.segments) >= maxStage/vfs.PageSize:
		p.forget()
		return 0, errStageSize
	case !p.staged.take(more):
		p.forget()
		return 0, errBusyStages
	}
	p.stage.segments[q.First] = q.Pages
	p.stage.bytes += more
	return uint64(n), nil
}

func sizeOfPages(pages []rp.Page) (n int) {
	for _, p := range pages {
		n += len(p.Data)
	}
	return n
}

// finish makes the commit of the parts that it names.
func (p *actorPages) finish(ctx context.Context, q *rp.FinishStage) (uint64, error) {
	if p.db == nil || p.stage == nil || q.TxID != p.head+1 {
		return 0, errStage
	}
	var all []rp.Page
	for _, first := range q.Segments {
		pages, ok := p.stage.segments[first]
		if !ok {
			return 0, errStage
		}
		all = append(all, pages...)
	}
	return p.commit(ctx, all, q.Size)
}

// remote returns the connection, which the first call opens. The head grows by that, once.
func (p *actorPages) remote(ctx context.Context) (*remoteSQL, error) {
	if p.sql != nil {
		return p.sql, nil
	}
	if err := p.readHead(ctx); err != nil {
		return nil, err
	}
	last, err := p.readNumber(ctx, rivetstore.SQLKey())
	if p.cut = err == nil && !p.ran && last == uint64(p.generation); p.cut {
		return nil, errCut
	}
	if err != nil {
		return nil, err
	}
	p.forget()
	p.db = nil
	var b batch.Batch
	b.Put(rivetstore.SQLKey(), rivetstore.AppendHead(nil, uint64(p.generation)))
	if err := p.advance(ctx, &b); err != nil {
		return nil, err
	}
	p.ran = true
	db, err := vfs.Open(ctx, p.handle, nil)
	if err != nil {
		return nil, err
	}
	session, err := sqlrun.OpenGuest(ctx, db.DB)
	if err != nil {
		return nil, errors.Join(err, session.Close(), db.Close())
	}
	p.sql = &remoteSQL{db, session}
	return p.sql, nil
}

// end closes what is open of the database. What is uncommitted is rolled back.
func (p *actorPages) end() {
	p.forget()
	r := p.sql
	if p.db, p.sql = nil, nil; r == nil {
		return
	}
	if err := r.close(); err != nil && p.handle.Err() == nil {
		p.log.Error("engine: close the database of an actor", slog.Any("error", err))
	}
}

// exec answers Exec: statements, and the rows of the last one that has some.
func (p *actorPages) exec(ctx context.Context, q *rp.Exec) (rp.Table, error) {
	r, err := p.remote(ctx)
	if err != nil {
		return rp.Table{}, err
	}
	return r.run(p.life, q.SQL, nil)
}

// execute answers Execute.
func (p *actorPages) execute(ctx context.Context, q *rp.Statement) (got rp.Result, err error) {
	r, err := p.remote(ctx)
	if err != nil {
		return got, err
	}
	if got.Table, err = r.run(p.life, q.SQL, q.Params); err != nil {
		return got, err
	}
	after, err := r.run(p.life, "select changes(), last_insert_rowid()", nil)
	if err == nil {
		got.Changes, _ = after.Rows[0][0].(int64)
		id, _ := after.Rows[0][1].(int64)
		got.LastInsertID = rp.Some(id)
	}
	return got, err
}

// executeAll answers ExecuteBatch: in one transaction, unless one is open.
func (p *actorPages) executeAll(ctx context.Context, q *rp.ExecuteBatch) (got rp.Results, err error) {
	r, err := p.remote(ctx)
	if err != nil {
		return nil, err
	}
	if !r.session.InTransaction() {
		if _, err := r.run(p.life, "begin immediate", nil); err != nil {
			return nil, err
		}
		defer func() {
			if err == nil {
				_, err = r.run(p.life, "commit", nil)
			}
			if err != nil && r.session.InTransaction() {
				err = errors.Join(err, r.session.Rollback())
			}
		}()
	}
	size := 0
	for i := range q.Statements {
		one, err := p.execute(ctx, &q.Statements[i])
		if err != nil {
			return nil, err
		}
		if size += sizeOfTable(&one.Table); size > maxResult {
			return nil, remoteError(errResult)
		}
		got = append(got, one)
	}
	return got, nil
}

// A databaseQuestion is what an envoy asks about a database.
type databaseQuestion interface {
	answer(ctx context.Context, p *actorPages) rp.ToRunner
	refuse(why *rp.SQLiteError) rp.ToRunner
}

// A pageQuestion is answered with a T.
type pageQuestion[T any] struct {
	id uint32
	do func(ctx context.Context, p *actorPages) (T, error)
}

func (q pageQuestion[T]) refuse(why *rp.SQLiteError) rp.ToRunner {
	return rp.Reply[T]{ID: q.id, Err: why}
}

func (q pageQuestion[T]) answer(ctx context.Context, p *actorPages) rp.ToRunner {
	got, err := q.do(ctx, p)
	if err != nil {
		return q.refuse(p.refusal(err))
	}
	return rp.Reply[T]{ID: q.id, Result: got}
}

// databaseRequest returns what a message asks, of which actor, and in which start of it. m is of one of these types.
func databaseRequest(m rp.ToEngine) (q databaseQuestion, actor string, generation rp.Optional[uint64]) {
	switch m := m.(type) {
	case rp.GetPages:
		return pageQuestion[rp.Pages]{m.ID, func(ctx context.Context, p *actorPages) (rp.Pages, error) { return p.read(ctx, &m) }}, m.Actor, m.Fence.Generation
	case rp.Commit:
		return pageQuestion[rp.Committed]{m.ID, func(ctx context.Context, p *actorPages) (c rp.Committed, err error) {
			if err := p.fenced(ctx, m.Fence.Head); err != nil {
				return c, err
			}
			head, err := p.commit(ctx, m.Pages, m.Size)
			return rp.Committed{Head: rp.Some(head)}, err
		}}, m.Actor, m.Fence.Generation
	case rp.BeginStage:
		return pageQuestion[rp.StageBegun]{m.ID, func(ctx context.Context, p *actorPages) (rp.StageBegun, error) {
			id, err := p.begin(ctx, &m)
			return rp.StageBegun{TxID: id}, err
		}}, m.Actor, m.Fence.Generation
	case rp.StageSegment:
		return pageQuestion[rp.SegmentStaged]{m.ID, func(_ context.Context, p *actorPages) (rp.SegmentStaged, error) {
			n, err := p.add(&m)
			return rp.SegmentStaged{Bytes: n}, err
		}}, m.Actor, m.Generation
	case rp.FinishStage:
		return pageQuestion[rp.StageFinished]{m.ID, func(ctx context.Context, p *actorPages) (rp.StageFinished, error) {
			head, err := p.finish(ctx, &m)
			return rp.StageFinished{Head: rp.Some(head)}, err
		}}, m.Actor, m.Generation
	case rp.Exec:
		return pageQuestion[rp.Table]{m.ID, func(ctx context.Context, p *actorPages) (rp.Table, error) { return p.exec(ctx, &m) }}, m.Database.Actor, rp.Some(m.Database.Generation)
	case rp.Execute:
		return pageQuestion[rp.Result]{m.ID, func(ctx context.Context, p *actorPages) (rp.Result, error) { return p.execute(ctx, &m.Statement) }}, m.Database.Actor, rp.Some(m.Database.Generation)
	case rp.ExecuteBatch:
		return pageQuestion[rp.Results]{m.ID, func(ctx context.Context, p *actorPages) (rp.Results, error) { return p.executeAll(ctx, &m) }}, m.Database.Actor, rp.Some(m.Database.Generation)
	}
	panic("engine: a message that isn't about a database")
}

// refusal returns what the program is told of an error.
func (p *actorPages) refusal(err error) *rp.SQLiteError {
	say := func(code, message string) *rp.SQLiteError {
		return &rp.SQLiteError{Group: "depot", Code: code, Message: message}
	}
	own := (*rp.SQLiteError)(nil)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, vfs.ErrPage):
		return say("invalid_request", err.Error())
	case errors.Is(err, batch.ErrTooLarge):
		return errStageSize
	case errors.Is(err, errkind.ErrNoSpace):
		return say("no_space", "the store has no room; try again later")
	case errors.Is(err, errkind.ErrQuota):
		return say("quota_exceeded", "the actor may not store more")
	case errors.Is(err, actorstore.ErrFenced), errors.Is(err, actorstore.ErrClosed):
		return errNoSuchActor
	}
	p.log.Error("engine: pages of an actor", slog.Any("error", err))
	return say("internal_error", "internal error")
}
