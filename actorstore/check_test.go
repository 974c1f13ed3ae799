package actorstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

// findings returns what a check yields, each on a line, with the ids of testActors
// in words.
func findings(t testing.TB, all iter.Seq2[actorstore.Finding, error]) []string {
	t.Helper()
	lines := []string{}
	for f, err := range all {
		must(t, err)
		line := f.String()
		for name, id := range testActors {
			line = strings.ReplaceAll(line, id.String(), name)
		}
		lines = append(lines, line)
	}
	return lines
}

// testActors are the actors of a planted store, in the order of their ids.
var testActors = map[string]actorstore.ID{"A": {UUID: [16]byte{1}}, "B": {UUID: [16]byte{2}}, "C": {UUID: [16]byte{3}}, "D": {UUID: [16]byte{4}}}

// plant makes a healthy store of four actors: A and B with names and keys of all
// sizes, C with neither name nor any key left, D opened and never written to.
func plant(t testing.TB, eng kv.Engine) *actorstore.Store {
	t.Helper()
	s := openStore(t, eng, batch.Limits{})
	for _, name := range []string{"A", "B", "C", "D"} {
		opts := &actorstore.ActorOptions{}
		if name <= "B" {
			opts.Name = "name of " + name
		}
		a, err := s.Actor(ctx, testActors[name], opts)
		must(t, err)
		if name <= "C" {
			for _, n := range []int{0, 1, layout.RowSize, layout.RowSize + 1, 3*layout.RowSize - 1} {
				must(t, a.User().Put(ctx, fmt.Appendf(nil, "%05d", n), bytes.Repeat([]byte{1}, n)))
			}
			must(t, a.Put(ctx, actorstore.LayoutGreenroom.AppendQueueMessage(nil, 7), []byte("message")))
		}
		if name == "C" {
			must(t, a.DeleteRange(ctx, nil, nil))
		}
		must(t, a.Close())
	}
	return s
}

// Parts of rows that the table below plants.

func row(name string, key []byte, tail ...byte) []byte {
	p := layout.NewPrefix(layout.ID(testActors[name]))
	return append(p.AppendBase(nil, key), tail...)
}

func data(name, key string, i int) []byte { return layout.AppendData(row(name, user(key)), i) }
func meta(name, key string) []byte        { return layout.AppendMetadata(row(name, user(key))) }
func headOf(name string) []byte {
	return layout.RecordKey(layout.ID(testActors[name]), layout.PartHead)
}
func nameOf(name string) []byte {
	return layout.RecordKey(layout.ID(testActors[name]), layout.PartName)
}
func leads(name string) []byte {
	return (&layout.Named{ID: layout.ID(testActors[name])}).Append(nil)
}

func counts(used int64) []byte { return (&layout.Head{Epoch: 1, Seq: 1, Used: used}).Append(nil) }

var sound = layout.AppendMetadataValue(nil, layout.MetadataVersion, 1)

// usedByA is what A and B use.
const usedByA = 5*(6+2) + 0 + 1 + layout.RowSize + layout.RowSize + 1 + 3*layout.RowSize - 1 + 9 + 2 + 7

// A damage is what a test does to a planted store, and what Check says of that.
type damage struct {
	name string
	ops  []kv.Op
	want []string
}

// damagedRows are those of the rows of a value.
func damagedRows() []damage {
	big := bytes.Repeat([]byte{1}, layout.RowSize)
	return []damage{
		{"nothing", nil, nil},
		{"DATA row missing", []kv.Op{kv.Clear(data("A", "29999", 1))},
			[]string{"actor A: user/29999: DATA row 1 is missing, row 2 is there"}},
		{"first DATA row missing", []kv.Op{kv.Clear(data("A", "29999", 0))},
			[]string{"actor A: user/29999: DATA row 0 is missing, row 1 is there"}},
		{"last DATA row missing", []kv.Op{kv.Clear(data("A", "29999", 2))},
			[]string{fmt.Sprintf("actor A: head: it counts %d bytes used, the keys use %d", usedByA, usedByA-9999)}},
		{"DATA row behind a short one", []kv.Op{kv.Set(data("A", "00001", 1), []byte("x"))},
			[]string{"actor A: user/00001: DATA row 0 is short and not the last"}},
		{"DATA row too many", []kv.Op{kv.Set(data("A", "10000", 1), []byte("x"))},
			[]string{fmt.Sprintf("actor A: head: it counts %d bytes used, the keys use %d", usedByA, usedByA+1)}},
		{"DATA row far behind", []kv.Op{kv.Set(data("A", "10000", 70_000), []byte("x"))},
			[]string{"actor A: user/10000: DATA row 1 is missing, row 70000 is there"}},
		{"index of a DATA row too high", []kv.Op{kv.Set(data("A", "10000", 1<<32), []byte("x"))},
			[]string{"actor A: user/10000: row 1504190100000000 is neither DATA nor METADATA: DATA row 4294967296 with 0 bytes behind"}},
		{"DATA row of no bytes", []kv.Op{kv.Set(data("A", "10000", 1), nil)},
			[]string{"actor A: user/10000: DATA row 1 has 0 bytes"}},
		{"DATA row too long", []kv.Op{kv.Set(data("A", "00001", 0), append(big, 1))},
			[]string{"actor A: user/00001: DATA row 0 has 10001 bytes"}},
		{"METADATA missing", []kv.Op{kv.Clear(meta("A", "29999"))},
			[]string{"actor A: user/29999: METADATA is missing"}},
		{"METADATA of bad BARE", []kv.Op{kv.Set(meta("A", "29999"), []byte{200})},
			[]string{"actor A: user/29999: METADATA: bare: malformed"}},
		{"METADATA with bytes behind", []kv.Op{kv.Set(meta("A", "29999"), append(bytes.Clone(sound), 0))},
			[]string{"actor A: user/29999: METADATA: bare: malformed"}},
		{"row after METADATA", []kv.Op{kv.Set(row("A", user("29999"), 0x15, 0x2d), nil)},
			[]string{"actor A: user/29999: row 152d is neither DATA nor METADATA: column 45"}},
		{"row before DATA", []kv.Op{kv.Set(row("A", user("29999"), 0x15, 0x03), nil)},
			[]string{"actor A: user/29999: row 1503 is neither DATA nor METADATA: column 3"}},
		{"row of no column", []kv.Op{kv.Set(row("A", user("29999"), 0xfe), nil)},
			[]string{"actor A: user/29999: row fe is neither DATA nor METADATA: "}},
	}
}

// damagedPrefixes are those of keys that belong to no value.
func damagedPrefixes() []damage {
	prefixOfA := layout.NewPrefix(layout.ID(testActors["A"]))
	return []damage{
		{"keys that can't be parsed", []kv.Op{
			kv.Set(append(prefixOfA[:], 0x05, 0x01, 'x'), nil), kv.Set(append(prefixOfA[:], 0x05, 0x01, 'x', 'y'), nil)},
			[]string{fmt.Sprintf("actor A: row %x: its key wraps no key of an actor, like 1 more behind it", append(prefixOfA[:], 0x05, 0x01, 'x'))}},
		{"key that wraps two", []kv.Op{kv.Set(tuple.AppendNestedEnd(tuple.AppendBytes(tuple.AppendBytes(tuple.AppendNestedStart(prefixOfA[:]), user("x")), nil)), nil)},
			[]string{"actor A: row 14150315484001010000000000000000000000000000000000050104780001"}},
		{"the prefix of an actor by itself", []kv.Op{kv.Set(prefixOfA[:], nil)},
			[]string{fmt.Sprintf("actor A: row %x: its key wraps no key of an actor", prefixOfA)}},
		{"rows of nobody", []kv.Op{
			kv.Set(append(bytes.Clone(prefixOfA[:5]), 0x15, 0x01), nil), kv.Set(append(bytes.Clone(prefixOfA[:5]), 0x15, 0x02), nil)},
			[]string{"row 14150315481501: its key belongs to no actor, like 1 more behind it"}},
		{"row of nobody at the end", []kv.Op{kv.Set(append(bytes.Clone(prefixOfA[:5]), 0xff), nil)},
			[]string{"row 1415031548ff: its key belongs to no actor"}},
	}
}

// damagedKeys are those of logical keys and of sizes.
func damagedKeys() []damage {
	long, big := strings.Repeat("k", 2046), bytes.Repeat([]byte{1}, layout.RowSize)
	var large []kv.Op
	for i := range 14 {
		large = append(large, kv.Set(data("C", "k", i), big))
	}
	large = append(large, kv.Set(meta("C", "k"), sound), kv.Set(headOf("C"), counts(4+140_000)))
	return []damage{
		{"unknown namespace", []kv.Op{kv.Set(layout.AppendMetadata(row("C", []byte{10, 1})), sound), kv.Set(headOf("C"), counts(4))},
			[]string{"actor C: unknown/0a01: no namespace has a key of this form"}},
		{"unknown form", []kv.Op{kv.Set(layout.AppendMetadata(row("C", []byte{actorstore.NamespaceQueue, 1})), sound), kv.Set(headOf("C"), counts(4))},
			[]string{"actor C: unknown/0501: no namespace has a key of this form"}},
		{"older form", []kv.Op{kv.Set(layout.AppendMetadata(row("C", []byte("\x09\x00main.db"))), sound), kv.Set(headOf("C"), counts(11))}, nil},
		{"empty key", []kv.Op{kv.Set(layout.AppendMetadata(row("C", nil)), sound), kv.Set(headOf("C"), counts(2))},
			[]string{"actor C: unknown/: no namespace has a key of this form"}},
		{"key too long", []kv.Op{kv.Set(meta("C", long), sound), kv.Set(headOf("C"), counts(2049))},
			[]string{"actor C: user/" + long + ": the key has 2049 bytes, limit 2048"}},
		{"value too large", large,
			[]string{"actor C: user/k: the value has 140000 bytes, limit 131072"}},
	}
}

// damagedHeads are those of heads.
func damagedHeads() []damage {
	return []damage{
		{"wrong count", []kv.Op{kv.Set(headOf("B"), counts(3))},
			[]string{fmt.Sprintf("actor B: head: it counts 3 bytes used, the keys use %d", usedByA)}},
		{"count of damaged keys", []kv.Op{kv.Set(headOf("B"), counts(3)), kv.Clear(meta("B", "29999"))},
			[]string{"actor B: user/29999: METADATA is missing"}},
		{"head damaged", []kv.Op{kv.Set(headOf("B"), counts(3)[:20])},
			[]string{"actor B: head: it can't be read: bare: malformed"}},
		{"head of a count below 0", []kv.Op{kv.Set(headOf("C"), counts(math.MinInt64))},
			[]string{"actor C: head: it can't be read: bare: malformed"}},
		{"head newer", []kv.Op{kv.Set(headOf("B"), []byte{2, 0})},
			[]string{"actor B: head: it is of version 2, known are versions up to 1"}},
		{"head of version 0", []kv.Op{kv.Set(headOf("B"), []byte{0, 0})},
			[]string{"actor B: head: it can't be read: actorstore: head of actor B: version 0"}},
		{"head missing", []kv.Op{kv.Clear(headOf("A"))},
			[]string{`actor A: head: it is missing; left of the actor are 14 rows, the name "name of A"`}},
		{"head and name missing", []kv.Op{kv.Clear(headOf("B")), kv.Clear(nameOf("B"))}, []string{
			"actor B: head: it is missing; left of the actor are 14 rows",
			`name "name of B": it leads to actor B, which has no head`}},
		{"nothing but rows", []kv.Op{kv.Clear(headOf("B")), kv.Clear(nameOf("B")), kv.Clear(layout.NameKey("name of B"))},
			[]string{"actor B: head: it is missing; left of the actor are 14 rows"}},
		{"head of no actor", []kv.Op{kv.Set(headOf("C"), counts(77))},
			[]string{"actor C: head: it counts 77 bytes used, and the actor has no keys"}},
		{"head of the zero id", []kv.Op{kv.Set(layout.RecordKey(layout.ID{}, layout.PartHead), counts(0))},
			[]string{"head: it is that of the zero id, which names no actor"}},
		{"unknown row behind a head", []kv.Op{kv.Set(tuple.AppendUint(headOf("B"), 9), nil)},
			[]string{fmt.Sprintf("actor B: row %x: the store has no row of this kind", tuple.AppendUint(headOf("B"), 9))}},
	}
}

// damagedNames are those of names.
func damagedNames() []damage {
	return []damage{
		{"name row missing", []kv.Op{kv.Clear(layout.NameKey("name of A"))},
			[]string{`actor A: name: it is "name of A", and no row leads from that to an actor`}},
		{"name missing", []kv.Op{kv.Clear(nameOf("A"))},
			[]string{`name "name of A": it leads to actor A, which has no name`}},
		{"second name row", []kv.Op{kv.Set(layout.NameKey("alias"), leads("A"))},
			[]string{`name "alias": it leads to actor A, whose name is "name of A"`}},
		{"name row astray", []kv.Op{kv.Set(layout.NameKey("alias"), (&layout.Named{ID: layout.ID{Label: 9}}).Append(nil))},
			[]string{`name "alias": it leads to actor ` + actorstore.ID{Label: 9}.String() + `, which has no head`}},
		{"name of another", []kv.Op{kv.Set(nameOf("C"), []byte("name of A"))},
			[]string{`actor C: name: it is "name of A", which leads to actor A`}},
		{"name invalid", []kv.Op{kv.Set(nameOf("C"), []byte{0xff})},
			[]string{`actor C: name: it can't be used: actorstore: bad actor name: "\xff" is not UTF-8`}},
		{"name empty", []kv.Op{kv.Set(nameOf("C"), nil)},
			[]string{`actor C: name: it can't be used: actorstore: bad actor name: it is empty`}},
		{"name row invalid", []kv.Op{kv.Set(layout.NameKey(strings.Repeat("n", 256)), leads("A"))},
			[]string{`name "` + strings.Repeat("n", 256) + `": it can't be used: actorstore: bad actor name: 256 bytes, limit 255`}},
		{"name row damaged", []kv.Op{kv.Set(layout.NameKey("name of A"), leads("A")[:9])},
			[]string{`name "name of A": it can't be read: bare: malformed`}},
		{"name row newer", []kv.Op{kv.Set(layout.NameKey("name of A"), []byte{9, 0})},
			[]string{`name "name of A": it is of version 9, known are versions up to 1`}},
	}
}

// damagedFormats are those of the row of the format, and of several things at once.
func damagedFormats() []damage {
	return []damage{
		{"format missing", []kv.Op{kv.Clear(layout.FormatKey())}, []string{"format: the row is missing"}},
		{"format damaged", []kv.Op{kv.Set(layout.FormatKey(), []byte{1, 0})}, []string{"format: it can't be read: bare: malformed"}},
		{"format newer", []kv.Op{kv.Set(layout.FormatKey(), []byte{7, 0})}, []string{"format: it is of version 7, known are versions up to 1"}},
		{"unknown row", []kv.Op{kv.Set(layout.AppendRows(nil, 3), nil)},
			[]string{fmt.Sprintf("row %x: the store has no row of this kind", layout.AppendRows(nil, 3))}},
		{"others' rows", []kv.Op{kv.Set([]byte("\x01other"), nil), kv.Set([]byte("\x02greenroon\x00"), nil),
			kv.Set(tuple.AppendUint(tuple.AppendString(nil, "greenroom"), 2), nil), kv.Set([]byte{0x14, 0x15, 3, 0x15, 73}, nil), kv.Set([]byte{0xff}, nil)}, nil},
		{"two damages", []kv.Op{kv.Clear(meta("A", "00000")), kv.Clear(data("A", "29999", 0)), kv.Set(headOf("B"), counts(1))}, []string{
			"actor A: user/29999: DATA row 0 is missing, row 1 is there",
			fmt.Sprintf("actor B: head: it counts 1 bytes used, the keys use %d", usedByA)}},
	}
}

func TestCheck(t *testing.T) {
	for _, c := range slices.Concat(damagedRows(), damagedPrefixes(), damagedKeys(), damagedHeads(), damagedNames(), damagedFormats()) {
		t.Run(c.name, func(t *testing.T) {
			eng := memkv.New()
			s := plant(t, eng)
			if len(c.ops) > 0 {
				must(t, eng.Commit(ctx, &kv.Commit{Ops: c.ops}))
			}
			compare(t, "the store", findings(t, s.Check(ctx)), c.want)
			if !strings.HasPrefix(c.name, "name row") { // what no other finding tells is the actor's, too
				compareActors(t, s, c.want)
			}
		})
	}
}

// compareActors holds what is found when one actor is checked against what of want
// is about it.
func compareActors(t *testing.T, s *actorstore.Store, want []string) {
	t.Helper()
	for _, name := range []string{"A", "B", "C"} {
		mine := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return !strings.HasPrefix(w, "actor "+name) })
		compare(t, "actor "+name, findings(t, s.CheckActor(ctx, testActors[name])), mine)
		v, err := s.View(ctx, testActors[name])
		if errors.Is(err, actorstore.ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) || errors.Is(err, actorstore.ErrUnknownActor) {
			continue // that is what CheckActor is for
		}
		must(t, err)
		compare(t, "view of actor "+name, findings(t, v.Check(ctx)), mine)
		must(t, v.Close())
	}
}

// compare holds what was found against how each finding begins.
func compare(t testing.TB, what string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestCheckActorOfDamagedName: the whole store tells it of the name, one actor of itself.
func TestCheckActorOfDamagedName(t *testing.T) {
	eng := memkv.New()
	s := plant(t, eng)
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{
		kv.Set(layout.NameKey("name of A"), []byte{9, 0}), kv.Clear(layout.NameKey("name of B")),
	}}))
	compare(t, "A", findings(t, s.CheckActor(ctx, testActors["A"])),
		[]string{`actor A: name: the row of "name of A": it is of version 9, known are versions up to 1`})
	compare(t, "B", findings(t, s.CheckActor(ctx, testActors["B"])),
		[]string{`actor B: name: it is "name of B", and no row leads from that to an actor`})
}

// TestCheckFlood: a damage of many rows is not as many findings.
func TestCheckFlood(t *testing.T) {
	eng := memkv.New()
	s := plant(t, eng)
	p := layout.NewPrefix(layout.ID(testActors["A"]))
	var ops []kv.Op
	for i := range 1000 {
		ops = append(ops, kv.Set(layout.AppendData(row("B", user("x")), 2*i), nil), // one key
			kv.Set(fmt.Appendf(bytes.Clone(p[:5]), "\xff%d", i), nil),
			kv.Set(fmt.Appendf(bytes.Clone(p[:]), "\xff%d", i), nil))
	}
	must(t, eng.Commit(ctx, &kv.Commit{Ops: ops}))
	if got := findings(t, s.Check(ctx)); len(got) != 3 {
		t.Errorf("%d findings: %.2000q", len(got), got)
	}
}

// TestCheckRandom: what the API makes is sound, whatever it is asked for, except for
// keys that belong to no namespace.
func TestCheckRandom(t *testing.T) {
	for _, seed := range []uint64{4, rand.Uint64()} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			onReplayers(t, func(t *testing.T, r *replayer) {
				g := &generator{rnd: rand.New(rand.NewPCG(seed, 0))}
				for i := range 300 {
					line := g.line()
					if err := r.run(line); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					if i%5 != 0 {
						continue
					}
					want := []string{}
					for _, k := range sortedKeys(r.model) {
						if actorstore.DescribeIn(actorstore.LayoutGreenroom, []byte(k)) == "" {
							want = append(want, fmt.Sprintf("actor %s: %s: no namespace", testID, actorstore.Describe([]byte(k))))
						}
					}
					compare(t, line, findings(t, r.store.Check(ctx)), want)
				}
			})
		})
	}
}

func TestCheckRefused(t *testing.T) {
	s := plant(t, memkv.New())
	last := func(all iter.Seq2[actorstore.Finding, error]) (err error) {
		n := 0
		for _, err = range all {
			n++
		}
		if n != 1 {
			t.Errorf("%d times, want one error", n)
		}
		return err
	}
	for _, id := range []actorstore.ID{testActors["D"], testID} { // opened and never written to; never seen
		if err := last(s.CheckActor(ctx, id)); !errors.Is(err, actorstore.ErrUnknownActor) {
			t.Errorf("unknown actor: %v", err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := last(s.Check(gone)); !errors.Is(err, context.Canceled) {
		t.Errorf("no context: %v", err)
	}
	v, err := s.View(ctx, testActors["A"])
	must(t, err)
	must(t, v.Close())
	if err := last(v.Check(ctx)); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("closed view: %v", err)
	}
	for e, err := range v.Survey(ctx, nil, nil) {
		if e.Key != nil || !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("closed view: survey %v, %v", e, err)
		}
	}
	must(t, s.Close())
	if err := last(s.Check(ctx)); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("closed store: %v", err)
	}
}
