package history

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// wantSize fails the test unless err says which place is too large.
func wantSize(t testing.TB, what string, err error, path string, size, limit int) {
	t.Helper()
	var e *SizeError
	if !errors.As(err, &e) || !errors.Is(err, errTooLarge) {
		t.Errorf("%s: got error %v", what, err)
		return
	}
	var l *batch.LimitError
	if e.Path != path || e.Size != size || e.Limit != limit || !errors.As(err, &l) {
		t.Errorf("%s: got %q with %d of %d bytes, want %q with %d of %d", what, e.Path, e.Size, e.Limit, path, size, limit)
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("%s: %q doesn't name %q", what, err, path)
	}
}

// An entry of the largest size there can be is stored, and one of a byte more refused
// before anything is written, by its place and size.
func TestValueLimit(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	const limit = 128 << 10
	l := r.at("order", "charge")
	e := Entry{ID: noID, Location: l, Kind: Step{Output: []byte{}}}
	rest := len(appendEntry(nil, &e)) + 2 // and two bytes more for the length
	e.Kind = Step{Output: make([]byte, limit-rest)}
	if n := len(appendEntry(nil, &e)); n != limit {
		t.Fatalf("%d bytes", n)
	}
	must(t, r.h.check(e))
	r.commit(func(tx *Tx) { must(t, tx.Put(e)) })
	r.verify("the largest")
	tx := r.h.Begin()
	e.Kind = Step{Output: make([]byte, limit-rest+1)}
	wantSize(t, "check", r.h.check(e), "order/charge", limit+1, limit)
	wantSize(t, "put", tx.Put(e), "order/charge", limit+1, limit)
	// The transaction is good for what says so.
	must(t, tx.Put(Entry{Location: l, Kind: Step{Error: new("too large")}}))
	must(t, tx.Commit(ctx))
	r.verify("the error")
	tx = r.h.Begin()
	must(t, tx.SetOutput(make([]byte, limit)))
	wantSize(t, "output", tx.SetOutput(make([]byte, limit+1)), "output", limit+1, limit)
	wantSize(t, "input", tx.SetInput(make([]byte, limit+1)), "input", limit+1, limit)
}

// A place that is too deep for a key is refused before anything runs there.
func TestKeyLimit(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	l := Location("")
	for len(appendEntryKey(layout, nil, l)) < 2046 {
		l = l.Name(0)
	}
	_, err := r.h.Name("x")
	must(t, err)
	must(t, r.h.check(Entry{Location: l, Kind: Step{}}))
	r.commit(func(tx *Tx) { must(t, tx.Put(Entry{Location: l, Kind: Step{}})) })
	r.verify("the deepest")
	deeper := l.Name(0)
	path := r.h.Path(deeper)
	wantSize(t, "one more", r.h.check(Entry{Location: deeper, Kind: Step{}}), path, 2049, 2048)
	wantSize(t, "a long id", r.h.check(Entry{ID: strings.Repeat("i", 3000), Location: l, Kind: Step{}}), r.h.Path(l), 3007, 2048)
}

func TestNames(t *testing.T) {
	r := newRig(t, Options{}, whole)
	tx := r.h.Begin()
	var want []string
	for _, name := range []string{"", "a/b", "~1", "a\x00b", "日本", strings.Repeat("x", 2048), strings.Repeat("y", maxName)} {
		i, err := r.h.Name(name)
		must(t, err)
		if again, err := r.h.Name(name); again != i || err != nil || r.h.NameOf(i) != name {
			t.Errorf("%.20q: %d, then %d, %v", name, i, again, err)
		}
		must(t, tx.Put(Entry{Location: Location("").Name(i), Kind: Checkpoint{name}}))
		want = append(want, name)
	}
	_, err := r.h.Name("\xff")
	wantErr(t, "not UTF-8", err, errInvalid)
	_, err = r.h.Name(strings.Repeat("z", maxName+1))
	wantErr(t, "too long", err, errTooLarge)
	must(t, tx.Commit(ctx))
	r.verify("names")
	r.reopen()
	for i, name := range want {
		if got := r.h.NameOf(NameIndex(i)); got != name {
			t.Errorf("%d: got %.20q", i, got)
		}
	}
	small := newRig(t, Options{}, batch.Limits{ValueSize: 100})
	_, err = small.h.Name(strings.Repeat("z", 101))
	wantErr(t, "too long for the store", err, errTooLarge)
}

// What can't be read again is not written.
func TestInvalid(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	l := r.at("s")
	r.commit(func(tx *Tx) { must(t, tx.Put(Entry{ID: "taken", Location: l, Kind: Step{}})) })
	const odd = "\xff"
	for what, e := range map[string]Entry{
		"no kind":            {Location: l},
		"the root":           {Kind: Step{}},
		"no name":            {Location: Location("").Name(7), Kind: Step{}},
		"no loop":            {Location: l.Iteration(7, 1).Name(0), Kind: Step{}},
		"id":                 {ID: odd, Location: l, Kind: Step{}},
		"sleep state":        {Location: l, Kind: Sleep{State: 3}},
		"message name":       {Location: l, Kind: Message{Name: odd}},
		"checkpoint name":    {Location: l, Kind: Checkpoint{Name: odd}},
		"branch name":        {Location: l, Kind: Join{Branches: []Branch{{Name: odd}}}},
		"branch status":      {Location: l, Kind: Join{Branches: []Branch{{Status: 5}}}},
		"branch twice":       {Location: l, Kind: Race{Branches: []Branch{{Name: "a"}, {Name: "a"}}}},
		"winner":             {Location: l, Kind: Race{Winner: new(odd)}},
		"removed type":       {Location: l, Kind: Removed{Original: odd}},
		"removed name":       {Location: l, Kind: Removed{Name: new(odd)}},
		"somebody else's id": {ID: "taken", Location: r.at("other"), Kind: Step{}},
	} {
		tx := r.h.Begin()
		wantErr(t, what, tx.Put(e), errInvalid)
		if what != "somebody else's id" {
			wantErr(t, what+", checked", r.h.check(e), errInvalid)
		}
		c := r.counted(func() { must(t, tx.Commit(ctx)) })
		if c.Commits != 0 {
			t.Errorf("%s: %d commits", what, c.Commits)
		}
	}
	tx := r.h.Begin()
	wantErr(t, "metadata of nothing", tx.PutMetadata(r.at("nothing"), Metadata{}), errInvalid)
	wantErr(t, "status", tx.PutMetadata(l, Metadata{Status: 5}), errInvalid)
	must(t, tx.Put(Entry{ID: "new", Location: r.at("x"), Kind: Step{}}))
	wantErr(t, "an id twice", tx.Put(Entry{ID: "new", Location: r.at("y"), Kind: Step{}}), errInvalid)
	must(t, tx.PutMetadata(l, Metadata{}))
	tx.Delete(l)
	wantErr(t, "metadata of what is deleted", tx.PutMetadata(l, Metadata{}), errInvalid)
	must(t, tx.Commit(ctx))
	r.verify("after all")

	// What is there when it is put, and gone when it lands.
	l = r.at("x")
	late := r.h.Begin()
	must(t, late.PutMetadata(l, Metadata{}))
	r.commit(func(tx *Tx) { tx.Delete(l) })
	wantErr(t, "metadata of what is gone", late.Commit(ctx), errInvalid)
	r.verify("after that")
}

// Texts of errors can always be stored.
func TestErrorTexts(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	long := strings.Repeat("ü", 200_000)
	odd := "bad \xff\xfe byte"
	l := r.at("s")
	branches := []Branch{{Name: "a", Error: &odd}, {Name: "b", Error: &long}}
	r.commit(func(tx *Tx) {
		must(t, tx.Put(Entry{Location: l, Kind: Step{Error: &long}}))
		must(t, tx.PutMetadata(l, Metadata{Error: &odd, RollbackError: &long}))
		must(t, tx.Put(Entry{Location: r.at("j"), Kind: Join{Branches: branches}}))
		must(t, tx.SetError(&Failure{Name: odd, Message: long, Stack: long}))
	})
	r.verify("errors")
	if *branches[0].Error != odd {
		t.Error("the caller's branches were changed")
	}
	e, _ := r.h.Get(l)
	text := *e.Kind.(Step).Error
	if len(text) > maxText || len(text) < maxText-10 || !strings.HasSuffix(text, "ü"+cutMark) {
		t.Errorf("%d bytes that end with %q", len(text), text[len(text)-20:])
	}
	if got := *e.Metadata.Error; got != "bad \uFFFD byte" {
		t.Errorf("got %q", got)
	}
	small := newRig(t, Options{}, batch.Limits{ValueSize: 1000})
	small.commit(func(tx *Tx) { must(t, tx.SetError(&Failure{Name: "Error", Message: "m", Stack: long})) })
	if f := small.h.Failure(); f.Stack != "" || f.Message != "m" {
		t.Errorf("got %+v", f)
	}
	if err := small.h.Begin().SetError(&Failure{Message: long}); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
}

// Many entries are one commit, whole or not at all: over the quota, too.
func TestManyAtOnce(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{Storage: 210_000, AtomicBatches: whole.AtomicBatches})
	tx := r.h.Begin()
	for i := range 300 {
		r.step(tx, "x", "scope", string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	c := r.counted(func() { must(t, tx.Commit(ctx)) })
	if c.Commits != 1 || c.Gets+c.Scans != 0 {
		t.Errorf("%d commits, %d reads", c.Commits, c.Gets+c.Scans)
	}
	r.verify("300")
	tx = r.h.Begin()
	for _, name := range []string{"x", "y"} {
		r.step(tx, strings.Repeat("x", 100_000), name)
	}
	wantErr(t, "over the quota", tx.Commit(ctx), actorstore.ErrQuota)
	r.verify("over the quota")
	r.commit(func(tx *Tx) { tx.Delete(r.at("scope")) })
	must(t, tx.Commit(ctx))
	r.wantPaths("room was made", "x", "y")
	r.verify("room was made")
}
