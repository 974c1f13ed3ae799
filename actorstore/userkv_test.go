package actorstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// wantLimit holds that err is a limit of that size, and names it.
func wantLimit(t *testing.T, what string, err error, limit int) {
	t.Helper()
	var le *batch.LimitError
	if !errors.As(err, &le) || le.Limit != limit || !strings.Contains(err.Error(), fmt.Sprint("limit ", limit)) {
		t.Errorf("%s: got %v, want the limit %d", what, err, limit)
	}
}

// entriesOf returns n entries with values of size bytes.
func entriesOf(n, size int) (entries []UserEntry) {
	for i := range n {
		entries = append(entries, UserEntry{fmt.Appendf(nil, "k%05d", i), bytes.Repeat([]byte{byte(i)}, size)})
	}
	return entries
}

func TestUserText(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	u := a.User()
	for _, text := range []string{"", "grüß\x00dich", "日本語"} {
		must(t, u.PutText(ctx, text, text))
		if got, err := u.GetText(ctx, text); got != text || err != nil {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
		if v, err := u.Get(ctx, []byte(text), nil); string(v) != text || err != nil {
			t.Errorf("%q: got bytes %q, %v", text, v, err)
		}
	}
	must(t, u.Put(ctx, []byte("binary"), []byte("a\xffb\xe2\x82")))
	if got, err := u.GetText(ctx, "binary"); got != "a\ufffdb\ufffd\ufffd" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	must(t, u.DeleteText(ctx, ""))
	if _, err := u.GetText(ctx, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("a missing key: %v", err)
	}
}

// TestUserBatch: a batch of a user's is one commit, of one state, and is refused as a
// whole if it is too large, with the limit in the error.
func TestUserBatch(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		u := a.User()
		most := entriesOf(128, 3)
		must(t, u.PutBatch(ctx, most))
		if a.Seq() != 1 {
			t.Errorf("it took %d commits", a.Seq())
		}
		keys := [][]byte{most[5].Key, []byte("nobody"), most[2].Key, most[5].Key}
		must(t, u.Put(ctx, []byte("empty"), nil))
		keys = append(keys, []byte("empty"))
		snap, err := a.Snapshot(ctx)
		must(t, err)
		defer func() { must(t, snap.Close()) }()
		for _, from := range []*User{u, snap.User()} {
			got, err := from.GetBatch(ctx, keys)
			want := [][]byte{most[5].Value, nil, most[2].Value, most[5].Value, {}}
			if err != nil || !slices.EqualFunc(got, want, func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }) {
				t.Errorf("got %q, %v", got, err)
			}
			_, err = from.GetBatch(ctx, make([][]byte, 129))
			wantLimit(t, "129 keys", err, 128)
		}
		seq := a.Seq()
		wantLimit(t, "129 entries", u.PutBatch(ctx, entriesOf(129, 0)), 128)
		wantLimit(t, "129 deletions", u.DeleteBatch(ctx, make([][]byte, 129)), 128)
		wantLimit(t, "bytes", u.PutBatch(ctx, entriesOf(9, 120_000)), 976<<10)
		wantLimit(t, "a value", u.PutBatch(ctx, entriesOf(1, 128<<10+1)), 128<<10)
		wantLimit(t, "a key", u.PutBatch(ctx, []UserEntry{{Key: make([]byte, 2046)}}), 2048)
		if a.Seq() != seq {
			t.Error("something was written")
		}
		must(t, u.PutBatch(ctx, []UserEntry{{[]byte("twice"), []byte("1")}, {[]byte("twice"), []byte("2")}}))
		if got, err := u.GetText(ctx, "twice"); got != "2" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		must(t, u.DeleteBatch(ctx, append(keys, []byte("twice"))))
		if _, err := u.GetText(ctx, "twice"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v", err)
		}
		must(t, u.PutBatch(ctx, nil))
	})
}

// TestUserReadOnly: the user keys of a snapshot can't be written.
func TestUserReadOnly(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	u := snap.User()
	_, many := u.PutMany(ctx, entriesOf(1, 1))
	for what, err := range map[string]error{
		"put": u.PutText(ctx, "k", "v"), "delete": u.DeleteText(ctx, "k"), "many": many,
		"batch": u.PutBatch(ctx, entriesOf(1, 1)), "deletions": u.DeleteBatch(ctx, [][]byte{nil}),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestUserPutMany takes any number of entries in several commits, and says how many are
// there when one of them fails.
func TestUserPutMany(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{AtomicBatches: 1}))
	u := a.User()
	n, err := u.PutMany(ctx, entriesOf(300, 5))
	if n != 300 || err != nil || a.Seq() != 3 {
		t.Errorf("%d entries in %d commits, %v", n, a.Seq(), err)
	}
	if n, err := u.PutMany(ctx, nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	must(t, u.DeleteRange(ctx, nil, nil))
	seq := a.Seq()
	n, err = u.PutMany(ctx, append(entriesOf(300, 5), UserEntry{Value: make([]byte, 128<<10+1)}))
	if wantLimit(t, "one too large", err, 128<<10); n != 0 || a.Seq() != seq {
		t.Errorf("%d entries were written first", n)
	}

	eng.Reset()
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge, Skip: 1})
	n, err = u.PutMany(ctx, entriesOf(300, 5))
	if n != 128 || !errors.Is(err, batch.ErrTooLarge) {
		t.Errorf("%d entries, %v", n, err)
	}
	if c := eng.Counts(); c.Syncs != 1 {
		t.Errorf("what is there was synced %d times", c.Syncs)
	}
	if page, next, err := u.ListPage(ctx, ListOptions{KeysOnly: true}); len(page) != 128 || next != nil || err != nil {
		t.Errorf("%d entries are there, %v", len(page), err)
	}
	eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome})
	if n, err = u.PutMany(ctx, entriesOf(3, 5)); n != 0 || !errors.Is(err, ErrPoisoned) {
		t.Errorf("%d entries, %v", n, err)
	}
}

// TestUserListPage reads pages of any size in both directions, with a prefix and bounds,
// while others write.
func TestUserListPage(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	u := a.User()
	keys := []string{"", "\x00", "a", "a\x00", "a\x00\x00", "ab", "b", "\xff", "\xff\xff"}
	for _, k := range keys {
		must(t, u.PutText(ctx, k, "v"+k))
	}
	for _, o := range []ListOptions{{}, {Prefix: []byte("a")}, {Start: []byte("a")}, {End: []byte("b")},
		{Prefix: []byte("a"), Start: []byte("a\x00"), End: []byte("ab")}, {Prefix: []byte("\xff")}, {Prefix: []byte("x")}} {
		for _, o.Reverse = range []bool{false, true} {
			o.Limit = 0
			want := userKeys(t, u, o)
			for size := range len(keys) + 2 {
				o.Limit = size
				var got []string
				pages := 0
				for next := &o; next != nil; pages++ {
					var page []Entry
					var err error
					page, next, err = u.ListPage(ctx, *next)
					must(t, err)
					for _, e := range page {
						if got = append(got, string(e.Key)); string(e.Value) != "v"+string(e.Key) {
							t.Errorf("%q has %q", e.Key, e.Value)
						}
					}
				}
				if most := max(1, (len(want)+max(size, 1)-1)/max(size, 1)); !slices.Equal(got, want) || size > 0 && pages != most {
					t.Errorf("%+v: got %q on %d pages, want %q on %d", o, got, pages, want, most)
				}
			}
		}
	}
	_, next, err := u.ListPage(ctx, ListOptions{Limit: 3})
	must(t, err)
	must(t, u.PutText(ctx, "a\x00x", "va\x00x"))
	must(t, u.PutText(ctx, "\x00x", "v\x00x")) // before the end of the first page
	if page, _, err := u.ListPage(ctx, *next); err != nil || string(page[0].Key) != "a\x00" || string(page[2].Key) != "a\x00x" {
		t.Errorf("got %v, %v", page, err)
	}
	must(t, a.Close())
	if _, _, err := u.ListPage(ctx, ListOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
