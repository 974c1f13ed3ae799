package actorstore_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestUserKeys: every key is allowed, and nothing a user does reaches another
// namespace.
func TestUserKeys(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		others := [][]byte{{}, {1}, {3}, {3, 0xff}, {5}, actorstore.LayoutGreenroom.AppendQueueMessage(nil, 0), actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileMain), {0xff}}
		for _, k := range others {
			must(t, a.Put(ctx, k, []byte("other")))
		}
		u := a.User()
		keys := []string{"", "\x00", "\x01", "a", "ab", "\xff", "\xff\xff"}
		for _, k := range keys {
			must(t, u.Put(ctx, []byte(k), []byte("v"+k)))
			if v, err := u.Get(ctx, []byte(k), nil); string(v) != "v"+k || err != nil {
				t.Errorf("%q: got %q, %v", k, v, err)
			}
		}
		tests := []struct {
			name string
			o    actorstore.ListOptions
			want []string
		}{
			{"all", actorstore.ListOptions{}, keys},
			{"from", actorstore.ListOptions{Start: []byte("a")}, keys[3:]},
			{"to", actorstore.ListOptions{End: []byte("a")}, keys[:3]},
			{"to nothing", actorstore.ListOptions{End: []byte{}}, nil},
			{"prefix", actorstore.ListOptions{Prefix: []byte("a")}, keys[3:5]},
			{"prefix of FF", actorstore.ListOptions{Prefix: []byte("\xff")}, keys[5:]},
			{"beyond", actorstore.ListOptions{Start: []byte("\xff\xff\xff")}, nil},
			{"last", actorstore.ListOptions{Reverse: true, Limit: 1}, keys[6:]},
		}
		for _, tt := range tests {
			if got := userKeys(t, u, tt.o); !slices.Equal(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
		}
		must(t, u.DeleteRange(ctx, []byte("a"), []byte("b")))
		if got := userKeys(t, u, actorstore.ListOptions{}); !slices.Equal(got, append(slices.Clone(keys[:3]), keys[5:]...)) {
			t.Errorf("after [a, b): got %q", got)
		}
		must(t, u.Delete(ctx, nil))
		must(t, u.DeleteRange(ctx, nil, nil))
		if got := userKeys(t, u, actorstore.ListOptions{}); got != nil {
			t.Errorf("after all: got %q", got)
		}
		for _, k := range others {
			if v, _ := get(t, a, k); v != "other" {
				t.Errorf("the user reached %x: %q", k, v)
			}
		}
	})
}

func userKeys(t *testing.T, u *actorstore.User, o actorstore.ListOptions) (keys []string) {
	t.Helper()
	for e, err := range u.List(ctx, o) {
		must(t, err)
		if string(e.Value) != "v"+string(e.Key) {
			t.Errorf("%q has %q", e.Key, e.Value)
		}
		keys = append(keys, string(e.Key))
	}
	return keys
}

func TestUserStops(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	must(t, a.Put(ctx, user("a"), nil))
	must(t, a.Put(ctx, user("b"), nil))
	n := 0
	for range a.User().List(ctx, actorstore.ListOptions{}) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d entries after break", n)
	}
}

// TestUserReadOnly: the user keys of a snapshot can't be written.
func TestUserReadOnly(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	u := snap.User()
	for what, err := range map[string]error{
		"put": u.Put(ctx, []byte("k"), nil), "delete": u.Delete(ctx, []byte("k")), "delete range": u.DeleteRange(ctx, nil, nil),
	} {
		if !errors.Is(err, actorstore.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
