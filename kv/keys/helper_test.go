package keys_test

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

var ctx = context.Background()

// Names of elements, as a program would define them.
const (
	namespace  = 39
	data       = 4
	workflowID = 20
	actor      = 32
	wakeTime   = 21
	profile    = 22
	image      = 23
	member     = 24
	visits     = 25
	created    = 26
)

// A workflowKey is (actor, data, id, workflow id).
type workflowKey struct {
	UUID  tuple.UUID
	Label uint16
}

func (k *workflowKey) Elements(e *keys.Elements) {
	e.Const(actor, data)
	e.ID(&k.UUID, &k.Label)
	e.Const(workflowID)
}

func (workflowKey) Value() keys.Codec[int64] { return keys.Int64() }

// An under is the subspace (actor, data, user) that the types below lie in.
type under struct{ User string }

func (u *under) Elements(e *keys.Elements) {
	e.Const(actor, data)
	e.String(&u.User)
}

// A wakeKey is (under, wake time): when an actor wakes up.
type wakeKey struct{ under }

func (k *wakeKey) Elements(e *keys.Elements) { k.under.Elements(e); e.Const(wakeTime) }
func (wakeKey) Value() keys.Codec[time.Time] { return keys.Time() }

// A person is the value of a profileKey.
type person struct {
	Name string `json:"name"`
	Age  int    `json:"age,omitempty"`
}

// A profileKey is (under, profile).
type profileKey struct{ under }

func (k *profileKey) Elements(e *keys.Elements) { k.under.Elements(e); e.Const(profile) }
func (profileKey) Value() keys.Codec[person]    { return keys.JSON[person]() }

// An imageKey is (under, image, number), of chunked values.
type imageKey struct {
	under
	Number int64
}

func (k *imageKey) Elements(e *keys.Elements) {
	k.under.Elements(e)
	e.Const(image)
	e.Int64(&k.Number)
}

func (imageKey) Value() keys.Codec[[]byte] { return keys.Chunked(keys.Bytes()) }

// A memberKey is (under, member, number): an entry without a value.
type memberKey struct {
	under
	Number int
}

func (k *memberKey) Elements(e *keys.Elements) {
	k.under.Elements(e)
	e.Const(member)
	e.Int(&k.Number)
}

func (memberKey) Value() keys.Codec[struct{}] { return keys.Empty() }

// A visitsKey is (under, visits): a counter.
type visitsKey struct{ under }

func (k *visitsKey) Elements(e *keys.Elements) { k.under.Elements(e); e.Const(visits) }
func (visitsKey) Value() keys.Codec[int64]     { return keys.Counter() }

// A logKey is (log, versionstamp): an entry in the order of commits.
type logKey struct{ At tuple.Versionstamp }

func (k *logKey) Elements(e *keys.Elements) { e.Const("log"); e.Versionstamp(&k.At) }
func (logKey) Value() keys.Codec[string]    { return keys.String() }

// A changedKey is (changed): when something was changed, in the order of commits.
type changedKey struct{}

func (k *changedKey) Elements(e *keys.Elements)          { e.Const("changed") }
func (changedKey) Value() keys.Codec[tuple.Versionstamp] { return keys.Versionstamp() }
func (u under) image(n int64) imageKey                   { return imageKey{u, n} }
func (u under) member(n int) memberKey                   { return memberKey{u, n} }
func (u under) put(t testing.TB, w keys.Writer, when int64) {
	t.Helper()
	must(t, keys.Put(w, wakeKey{u}, at(when)))
}
func at(ms int64) time.Time                   { return time.UnixMilli(ms).UTC() }
func sub(els ...tuple.Element) tuple.Subspace { return tuple.NewSubspace(els) }
func pack(els ...tuple.Element) []byte        { return tuple.Tuple(els).Pack() }
func store(ops ...kv.Op) *direct              { d := &direct{Engine: memkv.New()}; d.apply(ops...); return d }

// direct commits every change at once: the simplest keys.ReadWriter.
type direct struct {
	kv.Engine
	err error // of every write
}

func (d *direct) apply(ops ...kv.Op) {
	if err := d.Commit(ctx, &kv.Commit{Ops: ops}); err != nil {
		panic(err)
	}
}

func (d *direct) commit(ops keys.Ops) error {
	if d.err != nil {
		return d.err
	}
	return d.Commit(ctx, &kv.Commit{Ops: ops})
}

func (d *direct) Set(key, value []byte) error { return d.commit(keys.Ops{kv.Set(key, value)}) }
func (d *direct) Clear(key []byte) error      { return d.commit(keys.Ops{kv.Clear(key)}) }
func (d *direct) ClearRange(start, end []byte) error {
	return d.commit(keys.Ops{kv.ClearRange(start, end)})
}

// Atomic evaluates at once.
func (d *direct) Atomic(m txn.Mutation, key, param []byte) error {
	value, err := d.Get(ctx, key, nil)
	result, ok := m.Apply(value, err == nil, param)
	if !ok {
		return d.Clear(key)
	}
	return d.Set(key, result)
}

// rows returns all there is, keys and values in hexadecimal.
func (d *direct) rows(t testing.TB) []string {
	t.Helper()
	var rows []string
	for e, err := range d.Scan(ctx, kv.Range{}) {
		must(t, err)
		rows = append(rows, hex.EncodeToString(e.Key)+" "+hex.EncodeToString(e.Value))
	}
	return rows
}

// must fails the test if err is not nil.
var must = testkit.Must

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}
