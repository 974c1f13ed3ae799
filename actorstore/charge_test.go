package actorstore_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestResolve: writes of one batch that meet the same keys, by hand. Each is
// committed knowing nothing, and once more knowing everything; TestResolveRandom
// does the same with random commits.
func TestResolve(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"put twice", "put a 5; put a 3", "a=3"},
		{"put, delete", "put a 5; delete a", "b=20 c=30"},
		{"delete twice", "delete a; delete a", "b=20 c=30"},
		{"delete, put", "delete a; put a 1", "a=1"},
		{"range, put inside", "range a c; put b 1", "b=1 c=30"},
		{"put inside, range", "put b 1; range a c", "c=30"},
		{"put new inside, range", "put aa 7; range a c", "c=30"},
		{"put, range, put", "put b 1; range a c; put b 2", "b=2 c=30"},
		{"put, range, delete", "put b 1; range a c; delete b", "c=30"},
		{"the same range twice", "range a c; range a c", "c=30"},
		{"overlapping ranges", "range a b; put a 4; range a c", "c=30"},
		{"overlapping, with a put between", "range b c; put b 4; range a b", "b=4 c=30"},
		{"everything", "put x 9; range a -; put z 8", "z=8"},
		{"large", "put a 25000; put a 10; put b 0", "a=10 b=0"},
		{"out of order", "put c 1; put a 2; put b 3", "a=2 b=3 c=1"},
		{"missing", "delete x; range x z", "a=10 b=20 c=30"},
		{"outside", "range b c; put a 1; put c 2", "a=1 c=2"},
	}
	for _, tt := range tests {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, " known ", known), func(t *testing.T) {
				a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
				model := content{}
				for k, n := range map[string]int{"a": 10, "b": 20, "c": 30} {
					model[k] = n
					must(t, a.Put(ctx, user(k), make([]byte, n)))
				}
				var b batch.Batch
				model.stage(&b, tt.script, known)
				must(t, a.Commit(ctx, &b))
				if !strings.Contains(model.String(), tt.want) {
					t.Errorf("the model has %s, want %s", model, tt.want)
				}
				model.check(t, a)
			})
		}
	}
}

// A content is a model of an actor: the size of the value of each user key.
type content map[string]int

func (c content) used() (n int64) {
	for k, size := range c {
		n += quota.Cost(user(k), int64(size))
	}
	return n
}

func (c content) String() string {
	s := ""
	for _, k := range sortedKeys(c) {
		s += fmt.Sprintf("%s=%d ", k, c[k])
	}
	return s
}

// stage puts the writes of script into b, with priors if known, and changes c.
// Priors are what c holds before.
func (c content) stage(b *batch.Batch, script string, known bool) {
	before := content{}
	for k, n := range c {
		before[k] = n
	}
	for _, line := range strings.Split(script, "; ") {
		var kind, key, arg string
		if n, _ := fmt.Sscan(line, &kind, &key, &arg); n < 2 {
			panic("bad line: " + line)
		}
		prior := batch.Absent
		if n, ok := before[key]; ok {
			prior = batch.Stored(n)
		}
		if !known {
			prior = batch.PriorUnknown
		}
		switch kind {
		case "put":
			n := 0
			fmt.Sscan(arg, &n)
			b.PutPrior(user(key), make([]byte, n), prior)
			c[key] = n
		case "delete":
			b.DeletePrior(user(key), prior)
			delete(c, key)
		case "range":
			var end []byte
			if arg != "-" {
				end = user(arg)
			}
			freed := before.used() - before.without(key, arg).used()
			b.DeleteRangePrior(user(key), end, batch.PriorUnknown)
			if known {
				ops := b.Ops()
				ops[len(ops)-1].Prior = batch.Freed(freed)
			}
			rest := c.without(key, arg)
			clear(c)
			for k, n := range rest {
				c[k] = n
			}
		}
	}
}

func (c content) without(start, end string) content {
	rest := content{}
	for k, n := range c {
		if k < start || end != "-" && k >= end {
			rest[k] = n
		}
	}
	return rest
}

// check compares the actor with the model: its keys, its sizes, and its use.
func (c content) check(t rapid.TB, a *actorstore.Actor) {
	t.Helper()
	got := content{}
	for e, err := range a.User().List(ctx, actorstore.ListOptions{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Key)] = e.Size
	}
	if got.String() != c.String() || a.Used() != c.used() {
		t.Fatalf("stored is %s(%d used), want %s(%d)", got, a.Used(), c, c.used())
	}
}

// TestResolveRandom commits batches in which keys and ranges meet, with any mixture
// of known and unknown priors, atomic and ordered.
func TestResolveRandom(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{Entries: 3, AtomicBatches: envlimits.Unlimited})
	key := rapid.SampledFrom([]string{"a", "ab", "b", "c", "d"})
	rapid.Check(t, func(t *rapid.T) {
		a, err := s.Actor(ctx, actorstore.NewID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		model := content{}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			var b batch.Batch
			b.Mode = rapid.SampledFrom([]batch.Mode{batch.Atomic, batch.Ordered}).Draw(t, "mode")
			var lines []string
			for range rapid.IntRange(1, 8).Draw(t, "writes") {
				switch rapid.IntRange(0, 3).Draw(t, "kind") {
				case 0, 1:
					size := rapid.SampledFrom([]int{0, 1, 10_000, 25_000}).Draw(t, "size")
					lines = append(lines, fmt.Sprintf("put %s %d", key.Draw(t, "key"), size))
				case 2:
					lines = append(lines, "delete "+key.Draw(t, "key"))
				default:
					start, end := key.Draw(t, "start"), rapid.SampledFrom([]string{"-", "b", "c", "d"}).Draw(t, "end")
					if end != "-" && end <= start {
						continue
					}
					lines = append(lines, fmt.Sprintf("range %s %s", start, end))
				}
			}
			if len(lines) == 0 {
				continue
			}
			model.stage(&b, strings.Join(lines, "; "), true)
			ops := b.Ops()
			for i := range ops {
				if rapid.Bool().Draw(t, "unknown") {
					ops[i].Prior = batch.PriorUnknown
				}
			}
			if err := a.Commit(ctx, &b); err != nil {
				t.Fatal(err)
			}
			model.check(t, a)
		}
	})
}
