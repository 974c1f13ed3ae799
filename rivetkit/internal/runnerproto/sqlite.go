package runnerproto

import "reflect"

// The messages of this file exist since Envoy6. With the first five the envoy runs SQLite itself, and the engine keeps pages;
// with the others the engine runs SQLite. It answers each with a Reply.

// A Fence says in what state an envoy takes an actor to be. The engine refuses what comes from another.
type Fence struct {
	Generation Optional[uint64] // of the actor
	Head       Optional[uint64] // the number of the database's last commit, 0 before the first
}

// A Page is one page of a database.
type Page struct {
	Number uint32 // from 1
	Data   []byte
}

// GetPages reads pages. The answer is a Reply[Pages].
type GetPages struct {
	ID      uint32 // the envoy's, for the answer
	Actor   string // the actor's id
	Numbers []uint32
	Fence   Fence
}

// Commit writes pages as one commit, and cuts off those behind the new end. The answer is a Reply[Committed].
type Commit struct {
	ID    uint32 // the envoy's, for the answer
	Actor string // the actor's id
	Pages []Page
	Size  uint32 // of the database, in pages
	At    int64  // Unix milliseconds
	Fence Fence
}

// BeginStage begins a commit that is too large for one message. The answer is a Reply[StageBegun]. It exists since Envoy8.
type BeginStage struct {
	ID    uint32 // the envoy's, for the answer
	Actor string // the actor's id
	Fence Fence
}

// StageSegment adds pages to a commit that has begun. The answer is a Reply[SegmentStaged]. It exists since Envoy8.
type StageSegment struct {
	ID         uint32 // the envoy's, for the answer
	Actor      string // the actor's id
	Generation Optional[uint64]
	TxID       uint64 // of StageBegun
	First      uint32 // names the segment
	Pages      []Page
}

// FinishStage commits what has been staged, all or nothing. The answer is a Reply[StageFinished]. It exists since Envoy8.
type FinishStage struct {
	ID         uint32 // the envoy's, for the answer
	Actor      string // the actor's id
	Generation Optional[uint64]
	TxID       uint64 // of StageBegun
	Size       uint32 // of the database, in pages
	At         int64  // Unix milliseconds
	Segments   []uint32
}

// A Database names the database that SQL is for.
type Database struct {
	Namespace  string
	Actor      string // the actor's id
	Generation uint64
}

// A Statement is SQL with the values of its parameters; nil is left out, an empty list isn't.
type Statement struct {
	SQL    string
	Params []Value
}

// A Value is a value of SQLite: nil, an int64, a float64, a string, or a []byte.
type Value any

// Exec runs SQL of any number of statements. The answer is a Reply[Table].
type Exec struct {
	ID       uint32 // the envoy's, for the answer
	Database Database
	SQL      string
}

// Execute runs one statement. The answer is a Reply[Result].
type Execute struct {
	ID        uint32 // the envoy's, for the answer
	Database  Database
	Statement Statement
}

// ExecuteBatch runs statements in one transaction. The answer is a Reply[Results].
type ExecuteBatch struct {
	ID         uint32 // the envoy's, for the answer
	Database   Database
	Statements []Statement
}

// A Reply is the engine's answer to a message about a database. The bytes in it alias what it was decoded from.
type Reply[T any] struct {
	ID     uint32       // of the message
	Result T            // zero with an error
	Err    *SQLiteError // nil if there was none
}

// SQLiteError says why the engine hasn't done what it was asked for.
type SQLiteError struct{ Group, Code, Message string }

// Error implements error.
func (e *SQLiteError) Error() string { return e.Group + "." + e.Code + ": " + e.Message }

// Pages answers GetPages: at least the pages asked for, in any order.
type Pages struct {
	Pages []Page // Data is nil, and only then left out, of a page behind the end
	Head  Optional[uint64]
}

// Committed answers Commit.
type Committed struct{ Head Optional[uint64] }

// StageBegun answers BeginStage.
type StageBegun struct{ TxID uint64 } // the number that the commit will have

// SegmentStaged answers StageSegment.
type SegmentStaged struct{ Bytes uint64 } // of the segment, as the engine keeps it

// StageFinished answers FinishStage.
type StageFinished struct{ Head Optional[uint64] }

// A Table is the rows that SQL has read. It answers Exec.
type Table struct {
	Columns []string // their names
	Rows    [][]Value
}

// Result answers Execute.
type Result struct {
	Table
	Changes      int64
	LastInsertID Optional[int64]
}

// Results answers ExecuteBatch, in the order of its statements.
type Results []Result

var values = union[Value]{
	{name: "NULL", has: func(v Value) bool { return v == nil }, fields: nothing[Value]},
	of[Value](func(n *int64, c *codec) { c.i64(n) }),
	of[Value](func(f *float64, c *codec) { c.float(f) }),
	of[Value](func(s *string, c *codec) { c.str(s) }),
	of[Value](func(b *[]byte, c *codec) { c.data(b) }),
}

func (GetPages) toEngine()     {}
func (Commit) toEngine()       {}
func (BeginStage) toEngine()   {}
func (StageSegment) toEngine() {}
func (FinishStage) toEngine()  {}
func (Exec) toEngine()         {}
func (Execute) toEngine()      {}
func (ExecuteBatch) toEngine() {}
func (Reply[T]) toRunner()     {}

// reply returns the member of the answers with a T, whose fields are these.
func reply[T any](fields func(*T, *codec)) member[ToRunner] {
	m := of[ToRunner](func(r *Reply[T], c *codec) {
		c.u32(&r.ID)
		failed := r.Err != nil
		if c.bool(&failed); !failed {
			fields(&r.Result, c)
			return
		}
		if c.r != nil {
			r.Err = new(SQLiteError)
		}
		r.Err.fields(c)
	})
	m.name = "Reply of " + reflect.TypeFor[T]().Name()
	return m
}

func (f *Fence) fields(c *codec) {
	optional(c, &f.Generation, (*codec).u64)
	optional(c, &f.Head, (*codec).u64)
}

func (p *Page) dirty(c *codec) {
	c.u32(&p.Number)
	c.data(&p.Data)
}

func (p *Page) stored(c *codec) {
	c.u32(&p.Number)
	c.body(&p.Data)
}

func (g *GetPages) fields(c *codec) {
	c.u32(&g.ID)
	c.str(&g.Actor)
	c.numbers(&g.Numbers)
	g.Fence.fields(c)
}

func (m *Commit) fields(c *codec) {
	c.u32(&m.ID)
	c.str(&m.Actor)
	list(c, &m.Pages, (*Page).dirty)
	c.u32(&m.Size)
	c.i64(&m.At)
	m.Fence.fields(c)
}

func (b *BeginStage) fields(c *codec) {
	c.u32(&b.ID)
	c.str(&b.Actor)
	b.Fence.fields(c)
}

func (s *StageSegment) fields(c *codec) {
	c.u32(&s.ID)
	c.str(&s.Actor)
	optional(c, &s.Generation, (*codec).u64)
	c.u64(&s.TxID)
	c.u32(&s.First)
	list(c, &s.Pages, (*Page).dirty)
}

func (f *FinishStage) fields(c *codec) {
	c.u32(&f.ID)
	c.str(&f.Actor)
	optional(c, &f.Generation, (*codec).u64)
	c.u64(&f.TxID)
	c.u32(&f.Size)
	c.i64(&f.At)
	c.numbers(&f.Segments)
}

func (d *Database) fields(c *codec) {
	c.str(&d.Namespace)
	c.str(&d.Actor)
	c.u64(&d.Generation)
}

func (s *Statement) fields(c *codec) {
	c.str(&s.SQL)
	maybe(c, &s.Params, row)
}

// row goes over the values of a row, or of parameters.
func row(p *[]Value, c *codec) {
	list(c, p, func(v *Value, c *codec) { values.value(c, v, "value of no type of SQLite") })
}

func (e *Exec) fields(c *codec) {
	c.u32(&e.ID)
	e.Database.fields(c)
	c.str(&e.SQL)
}

func (e *Execute) fields(c *codec) {
	c.u32(&e.ID)
	e.Database.fields(c)
	e.Statement.fields(c)
}

func (e *ExecuteBatch) fields(c *codec) {
	c.u32(&e.ID)
	e.Database.fields(c)
	list(c, &e.Statements, (*Statement).fields)
}

func (e *SQLiteError) fields(c *codec) {
	c.str(&e.Group)
	c.str(&e.Code)
	c.str(&e.Message)
}

func (p *Pages) fields(c *codec) {
	list(c, &p.Pages, (*Page).stored)
	optional(c, &p.Head, (*codec).u64)
}

func (r *Committed) fields(c *codec)     { optional(c, &r.Head, (*codec).u64) }
func (b *StageBegun) fields(c *codec)    { c.u64(&b.TxID) }
func (s *SegmentStaged) fields(c *codec) { c.u64(&s.Bytes) }
func (f *StageFinished) fields(c *codec) { optional(c, &f.Head, (*codec).u64) }

func (t *Table) fields(c *codec) {
	list(c, &t.Columns, func(s *string, c *codec) { c.str(s) })
	limited(c, &t.Rows, maxSize, row)
}

func (r *Result) fields(c *codec) {
	r.Table.fields(c)
	c.i64(&r.Changes)
	optional(c, &r.LastInsertID, (*codec).i64)
}

func (r *Results) fields(c *codec) { list(c, (*[]Result)(r), (*Result).fields) }
