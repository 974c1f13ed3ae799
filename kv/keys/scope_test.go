package keys_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

// TestScope: typed keys in a scope are those of the subspace.
func TestScope(t *testing.T) {
	d := mixed(t)
	before := d.rows(t)
	in := keys.In(d, sub("tenant", 1))
	k := under{"b"}.image(3)
	must(t, keys.Put(in, k, pattern(12_345)))
	must(t, keys.Put(in, under{"b"}.member(3), struct{}{}))
	must(t, keys.Add(in, visitsKey{under{"b"}}, 3))
	must(t, keys.Add(in, visitsKey{under{"b"}}, 4))
	if v, err := d.Get(ctx, pack("tenant", 1, actor, data, "b", visits), nil); hex.EncodeToString(v) != "0700000000000000" || err != nil {
		t.Errorf("visits are %x, %v", v, err)
	}
	for name, r := range map[string]kv.Reader{"in": in, "read in": keys.ReadIn(d, sub("tenant", 1)),
		"nested": keys.ReadIn(keys.In(d, sub("tenant")), sub(1)), "all": keys.In(in, sub())} {
		equal(t, name, words(t, keys.All[memberKey](ctx, r, keys.Sub(under{"b"}), nil)), "{{b} 3}")
		if v, err := keys.Get(ctx, r, k); !bytes.Equal(v, pattern(12_345)) || err != nil {
			t.Errorf("%s: got %d bytes, %v", name, len(v), err)
		}
		if ok, err := keys.Exists(ctx, r, under{"b"}.member(0)); ok || err != nil {
			t.Errorf("%s: what is outside: got %v, %v", name, ok, err)
		}
	}
	must(t, keys.DeleteSubspace(in, sub()))
	if rows := d.rows(t); !slices.Equal(rows, before) {
		t.Errorf("deleting all in the scope leaves %q, want %q", rows, before)
	}
}

// TestScopeModel: a scope is a store of its own, in which the same happens, and
// nothing around it changes.
func TestScopeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "p", "p\x00", "p\xff", "\xff", "\xff\xff"}).Draw(t, "prefix")
		whole, alone := store(), &direct{Engine: memkv.New()}
		outside := []string{}
		if prefix != "" {
			for _, k := range []string{"o", "p", "p\x00", "p\x00\x00", "p\xfe", "p\xff", "q", "\xff", "\xff\x00", "\xff\xff"} {
				if !bytes.HasPrefix([]byte(k), []byte(prefix)) {
					mustR(t, whole.Set([]byte(k), []byte("outside")))
					outside = append(outside, k)
				}
			}
		}
		in := keys.In(whole, tuple.FromBytes([]byte(prefix)))
		key := rapid.Map(rapid.StringMatching(`[\x00ab\x{7f}]{1,3}`), func(s string) []byte {
			return bytes.ReplaceAll([]byte(s), []byte{0x7f}, []byte{0xff})
		})
		bound := rapid.OneOf(key, rapid.Just[[]byte](nil))
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k := key.Draw(t, "key")
				mustR(t, errors.Join(in.Set(k, k), alone.Set(k, k)))
			},
			"clear": func(t *rapid.T) {
				k := key.Draw(t, "key")
				mustR(t, errors.Join(in.Clear(k), alone.Clear(k)))
			},
			"clear range": func(t *rapid.T) {
				start, end := bound.Draw(t, "start"), bound.Draw(t, "end")
				if end == nil && prefix == "" || end == nil && prefix[0] == 0xff {
					end = []byte("\xff\xff\xff\xff\xff\xff") // an engine wants one
				}
				top := end
				if top == nil {
					top = []byte("\xff\xff\xff\xff\xff\xff")
				}
				mustR(t, errors.Join(in.ClearRange(start, end), alone.ClearRange(start, top)))
			},
			"get": func(t *rapid.T) {
				k := key.Draw(t, "key")
				got, err := in.Get(ctx, k, []byte("x"))
				want, err2 := alone.Get(ctx, k, []byte("x"))
				if !bytes.Equal(got, want) || !errors.Is(err, err2) {
					t.Errorf("get %x: %q, %v, want %q, %v", k, got, err, want, err2)
				}
			},
			"scan": func(t *rapid.T) {
				r := kv.Range{Start: bound.Draw(t, "start"), End: bound.Draw(t, "end"),
					Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse")}
				if got, want := scanned(t, in, r), scanned(t, alone, r); !slices.Equal(got, want) {
					t.Errorf("scan %+v: got %q, want %q", r, got, want)
				}
			},
		})
		for _, k := range outside {
			if v, err := whole.Get(ctx, []byte(k), nil); string(v) != "outside" || err != nil {
				t.Errorf("outside, %x is %q, %v", k, v, err)
			}
		}
	})
}

func scanned(t *rapid.T, r kv.Reader, rng kv.Range) []string {
	var all []string
	for e, err := range r.Scan(ctx, rng) {
		mustR(t, err)
		all = append(all, string(e.Key)+"="+string(e.Value))
	}
	return all
}

// TestScopeStamps: the place of a versionstamp moves with the prefix, and can't be
// moved into it.
func TestScopeStamps(t *testing.T) {
	var w stamper
	in := keys.WriteIn(&w, sub("tenant"))
	must(t, keys.Put(in, logKey{tuple.IncompleteVersionstamp(1)}, "v"))
	want, err := tuple.PackWithVersionstamp(pack("tenant"), tuple.Tuple{"log", tuple.IncompleteVersionstamp(1)})
	must(t, err)
	if !bytes.Equal(w.key, want) || string(w.value) != "v" {
		t.Errorf("got %x, %q, want %x", w.key, w.value, want)
	}
	must(t, keys.Put(in, changedKey{}, tuple.IncompleteVersionstamp(1)))
	if !bytes.Equal(w.key, pack("tenant", "changed")) {
		t.Errorf("got %x", w.key)
	}
	s := keys.In(struct {
		kv.Reader
		keys.Stamper
	}{memkv.New(), &w}, sub("tenant"))
	for _, key := range [][]byte{nil, {1, 2, 3}, binary.LittleEndian.AppendUint32([]byte("0123456789"), 0xffff_fffe)} {
		if err := s.SetVersionstampedKey(key, nil); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("%x: got %v, want %v", key, err, kv.ErrInvalid)
		}
	}
}

type readWriter struct {
	kv.Reader
	keys.Writer
}

// TestScopeUnsupported: a scope can't do more than what it stands on.
func TestScopeUnsupported(t *testing.T) {
	in := keys.In(readWriter{memkv.New(), &keys.Ops{}}, sub("tenant"))
	for name, err := range map[string]error{
		"add": keys.Add(in, visitsKey{}, 1),
		"key": keys.Put(in, logKey{tuple.IncompleteVersionstamp(0)}, ""), "value": keys.Put(in, changedKey{}, tuple.IncompleteVersionstamp(0)),
	} {
		if !errors.Is(err, kv.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, kv.ErrUnsupported)
		}
	}
}

// TestScopeStrayRow: a key outside of the range that an engine yields is damage, and
// not shown as something else.
func TestScopeStrayRow(t *testing.T) {
	d := store(kv.Set([]byte("elsewhere"), nil))
	stray := spy{d, func(kv.Range) {}, true}
	n := 0
	for e, err := range keys.ReadIn(stray, sub("tenant")).Scan(ctx, kv.Range{}) {
		if n++; e.Key != nil || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("got %q, %v", e.Key, err)
		}
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
}
