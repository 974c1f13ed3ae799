package limits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// Key layout:
//
//	("greenroom.host", 2, limit, 0, value)                v1: what a limit of actors has given, for a value of their label: changes
//	                                                      u64, permits that are held u32, when its bucket is full i64 ns, the value of
//	                                                      the other label that was served last str
//	("greenroom.host", 2, limit, 1, value, fair, ticket)  v1: a place in its line: actor str, part str
//	("greenroom.host", 2, limit, 2, value, actor, part,   v1: a permit: its end i64 ms, 0 for none
//	number)
//	("greenroom.host", 2, limit, 3, value, actor, part)   v1: which place in the line that part of the actor has: fair str, ticket u64
//
// v1 is a u16le version and BARE. Part is "message", "batch", "work" or "workflow".

// root is all rows of limits.
var root = tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(2)})

// Kinds of rows.
const (
	kindRecord = iota
	kindLine
	kindHeld
	kindPlace
)

const rowVersion = 1

// A Claimant is a part of an actor that needs permits. It has one place in the line, and may hold several permits, by their Number.
type Claimant struct {
	Actor, Part string
	Number      int    // of the permit: not of a place in the line
	Fair        string // the line serves the values of Fair in turn
}

// same reports whether two are the same part of the same actor.
func (c *Claimant) same(o *Claimant) bool { return c.Actor == o.Actor && c.Part == o.Part }

// A Limit is one limit, for one value of its label. It is safe for concurrent use.
type Limit struct {
	Engine      kv.Engine
	Name, Value string
	Rule        Rule
	Now         func() time.Time

	mu    sync.Mutex // held for a change, so that those of one process don't conflict
	spent int64      // the record's, when this Limit took a token last  +checklocks:mu
	by    Claimant   // for which it took it  +checklocks:mu

	seen map[Claimant]sighting // permits with an end, as Sweep has found them last  +checklocks:mu
}

// A record is what is stored of a limit as a whole.
type record struct {
	changes uint64 // grows with each change; a ticket is its value
	held    uint32
	spent   int64 // Unix ns
	last    string
}

func (r *record) append(dst []byte) []byte {
	dst = bare.AppendU32(bare.AppendU64(bare.AppendVersion(dst, rowVersion), r.changes), r.held)
	return bare.AppendString(bare.AppendI64(dst, r.spent), r.last)
}

// open returns a reader of what stands behind the version of a row.
func open(key, value []byte) (*bare.Reader, error) {
	v, rest, err := bare.Version(value)
	switch {
	case err != nil:
		return nil, corrupt(key, err)
	case v > rowVersion:
		return nil, fmt.Errorf("host: row of a limit, key %x: %w", key, &kv.FormatError{What: "row of a limit", Found: uint64(v), Known: rowVersion})
	case v < rowVersion:
		return nil, corrupt(key, fmt.Errorf("version %d", v))
	}
	return bare.NewReader(rest), nil
}

// corrupt is the error of a row that can't be read.
func corrupt(key []byte, err error) error {
	return fmt.Errorf("host: row of a limit, key %x: %w: %w", key, kv.ErrCorrupt, err)
}

func parseRecord(key, value []byte) (rec record, err error) {
	r, err := open(key, value)
	if err != nil {
		return record{}, err
	}
	rec = record{changes: r.U64(), held: r.U32(), spent: r.I64(), last: r.String()}
	if err := r.Done(); err != nil {
		return record{}, corrupt(key, err)
	}
	return rec, nil
}

// A permit is one that is held.
type permit struct {
	Claimant
	until time.Time // zero for one without an end
}

// A Head is a claimant at the head of the line, and its ticket: that of another place in the line is another one.
type Head struct {
	Claimant
	Ticket uint64
}

// A place is one in the line.
type place = Head

// A state is the rows of a limit while they are looked at, and what is to be changed of them.
type state struct {
	ctx                 context.Context
	limit               *Limit
	now                 time.Time
	record              record
	prior               []byte // the record's value, nil if it isn't stored
	lines, permits, own tuple.Subspace
	ops                 []kv.Op
	changed             bool
}

// read reads the record.
func (l *Limit) read(ctx context.Context) (*state, error) {
	of := func(kind int64) tuple.Subspace { return root.Sub(l.Name, kind, l.Value) }
	s := &state{ctx: ctx, limit: l, now: l.Now(), lines: of(kindLine), permits: of(kindHeld), own: of(kindPlace)}
	key := s.limit.Key()
	value, err := l.Engine.Get(ctx, key, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.prior = value
	if s.record, err = parseRecord(key, value); err != nil {
		return nil, err
	}
	if spent := l.Rule.reset(s.record.spent, s.now.UnixNano()); spent != s.record.spent && l.Rule.Every > 0 {
		s.record.spent, s.changed = spent, true
	}
	return s, nil
}

// commit returns the commit of what was changed.
func (s *state) commit() *kv.Commit {
	s.record.changes++
	key := s.limit.Key()
	return &kv.Commit{
		Checks:     []kv.Check{{Key: key, Value: s.prior, Absent: s.prior == nil}},
		Ops:        append(s.ops, kv.Set(key, s.record.append(nil))),
		Durability: kv.Applied,
	}
}

func (s *state) permitKey(c *Claimant) []byte {
	return s.permits.Pack(tuple.Tuple{c.Actor, c.Part, int64(c.Number)})
}

// held returns the permit that c holds, nil for none.
func (s *state) held(c *Claimant) (*permit, error) {
	key := s.permitKey(c)
	value, err := s.limit.Engine.Get(s.ctx, key, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePermit(key, value, *c)
}

func parsePermit(key, value []byte, c Claimant) (*permit, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	ms := r.I64()
	if err := r.Done(); err != nil {
		return nil, corrupt(key, err)
	}
	p := &permit{Claimant: c}
	if ms != 0 {
		p.until = time.UnixMilli(ms)
	}
	return p, nil
}

// allHeld yields the permits that are held.
func (s *state) allHeld() iter.Seq2[*permit, error] {
	return permitsOf(s.ctx, s.limit.Engine, s.permits)
}

// permitsOf yields the permits in sub.
func permitsOf(ctx context.Context, r kv.Reader, sub tuple.Subspace) iter.Seq2[*permit, error] {
	return func(yield func(*permit, error) bool) {
		start, end := sub.Range()
		for e, err := range r.Scan(ctx, kv.Range{Start: start, End: end}) {
			var p *permit
			if err == nil {
				p, err = parseHeld(sub, e)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func parseHeld(sub tuple.Subspace, e kv.Entry) (*permit, error) {
	t, err := sub.Unpack(e.Key)
	if err != nil {
		return nil, corrupt(e.Key, err)
	}
	if len(t) == 3 {
		actor, ok := t[0].(string)
		part, ok2 := t[1].(string)
		if number, is := t[2].(int64); ok && ok2 && is {
			return parsePermit(e.Key, e.Value, Claimant{Actor: actor, Part: part, Number: int(number)})
		}
	}
	return nil, corrupt(e.Key, errElements)
}

var errElements = errors.New("elements of other kinds")

// hold stores a permit.
func (s *state) hold(c *Claimant, until time.Time) {
	ms := int64(0)
	if !until.IsZero() {
		ms = until.UnixMilli()
	}
	value := bare.AppendI64(bare.AppendVersion(nil, rowVersion), ms)
	s.set(s.permitKey(c), value)
}

// free removes a permit.
func (s *state) free(p *permit) {
	s.clear(s.permitKey(&p.Claimant))
	s.record.held = max(s.record.held, 1) - 1
}

// waiting returns the place of c in the line, nil for none.
func (s *state) waiting(c *Claimant) (*place, error) {
	key := s.own.Pack(tuple.Tuple{c.Actor, c.Part})
	value, err := s.limit.Engine.Get(s.ctx, key, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	p := &place{Claimant: Claimant{Actor: c.Actor, Part: c.Part, Fair: r.String()}, Ticket: r.U64()}
	if err := r.Done(); err != nil {
		return nil, corrupt(key, err)
	}
	return p, nil
}

// join puts c at the end of the line.
func (s *state) join(c *Claimant) {
	ticket := s.record.changes
	line := bare.AppendString(bare.AppendString(bare.AppendVersion(nil, rowVersion), c.Actor), c.Part)
	own := bare.AppendU64(bare.AppendString(bare.AppendVersion(nil, rowVersion), c.Fair), ticket)
	s.set(s.lines.Pack(tuple.Tuple{c.Fair, int64(ticket)}), line)
	s.set(s.own.Pack(tuple.Tuple{c.Actor, c.Part}), own)
}

// leave takes a place out of the line.
func (s *state) leave(p *place) {
	s.clear(s.lines.Pack(tuple.Tuple{p.Fair, int64(p.Ticket)}))
	s.clear(s.own.Pack(tuple.Tuple{p.Actor, p.Part}))
}

func parseLine(lines tuple.Subspace, e kv.Entry) (Head, error) {
	fair, err := firstText(lines, e.Key)
	if err != nil {
		return Head{}, err
	}
	t, err := lines.Unpack(e.Key)
	if err != nil || len(t) != 2 {
		return Head{}, corrupt(e.Key, errors.Join(err, errElements))
	}
	ticket, ok := t[1].(int64)
	if !ok {
		return Head{}, corrupt(e.Key, errElements)
	}
	r, err := open(e.Key, e.Value)
	if err != nil {
		return Head{}, err
	}
	h := Head{Claimant: Claimant{Actor: r.String(), Part: r.String(), Fair: fair}, Ticket: uint64(ticket)}
	if err := r.Done(); err != nil {
		return Head{}, corrupt(e.Key, err)
	}
	return h, nil
}

func (s *state) set(key, value []byte) {
	s.ops, s.changed = append(s.ops, kv.Set(key, value)), true
}

func (s *state) clear(key []byte) {
	s.ops, s.changed = append(s.ops, kv.Clear(key)), true
}

// Names yields the names of the limits of which something is stored.
func Names(ctx context.Context, engine kv.Engine) iter.Seq2[string, error] {
	return keys.Texts(ctx, engine, root)
}

// Lines yields the values of the limit of that name for which claimants wait.
func Lines(ctx context.Context, engine kv.Engine, name string) iter.Seq2[string, error] {
	return keys.Texts(ctx, engine, root.Sub(name, int64(kindLine)))
}

// Held yields the values of the limit of that name for which permits are held.
func Held(ctx context.Context, engine kv.Engine, name string) iter.Seq2[string, error] {
	return keys.Texts(ctx, engine, root.Sub(name, int64(kindHeld)))
}

// firstText returns the first element of a key of sub, which is a text.
func firstText(sub tuple.Subspace, key []byte) (string, error) {
	t, err := sub.Unpack(key)
	if err != nil {
		return "", corrupt(key, err)
	}
	if len(t) > 0 {
		if text, ok := t[0].(string); ok {
			return text, nil
		}
	}
	return "", corrupt(key, errElements)
}

// Tidy removes the records of a limit that say nothing: no permit is held, the line is empty, and the bucket is full. A limit for each value of a
// label would leave one for each value that there ever was.
func Tidy(ctx context.Context, engine kv.Engine, name string, now time.Time) error {
	var idle []kv.Check
	records := root.Sub(name, int64(kindRecord))
	start, end := records.Range()
	for e, err := range engine.Scan(ctx, kv.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		rec, err := parseRecord(e.Key, e.Value)
		if err != nil {
			return err
		}
		if rec.held == 0 && rec.spent <= now.UnixNano() {
			idle = append(idle, kv.Check{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
		}
	}
	for _, c := range idle {
		value, err := firstText(records, c.Key)
		if err != nil {
			return err
		}
		waits, err := filled(ctx, engine, root.Sub(name, int64(kindLine), value))
		if err != nil {
			return err
		}
		if waits {
			continue
		}
		err = engine.Commit(ctx, &kv.Commit{Checks: []kv.Check{c}, Ops: []kv.Op{kv.Clear(c.Key)}, Durability: kv.Applied})
		if err != nil && !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
	return nil
}

// filled reports whether a row is in sub.
func filled(ctx context.Context, engine kv.Engine, sub tuple.Subspace) (found bool, err error) {
	start, end := sub.Range()
	for _, err = range engine.Scan(ctx, kv.Range{Start: start, End: end, Limit: 1}) {
		found = err == nil
	}
	return found, err
}
