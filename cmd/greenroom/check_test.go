package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/traces"
)

// A planter changes what a store has, behind everybody's back.
type planter struct {
	t   *testing.T
	dir string
}

// newPlanter makes a store with three actors that have a database each, and one of
// which has a user key as well. The one without a name sorts between the others or not.
func newPlanter(t *testing.T) *planter {
	t.Helper()
	p := &planter{t, filepath.Join(t.TempDir(), "data")}
	for _, actor := range []string{"fine", "music", "id:" + actorstore.IDFromName("nameless").String()} {
		must(t, "sql", p.dir, actor, `create table t(a integer primary key, b); create index i on t(b);
			with recursive c(x) as (select 1 union all select x+1 from c limit 500) insert into t select x, hex(zeroblob(50)) from c`)
	}
	must(t, "put", p.dir, "music", "needle", strings.Repeat("hay ", 6000))
	return p
}

// own changes the actor music with the means of actorstore.
func (p *planter) own(change func(context.Context, *actorstore.Actor) error) {
	p.t.Helper()
	err := ownBelow(p.t.Context(), target{url: p.dir, actor: "music"}, func(a *actorstore.Actor) error {
		return change(p.t.Context(), a)
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// rows changes the rows of which the key has a part: change returns what to write
// instead of each, or nothing for its removal.
func (p *planter) rows(part []byte, change func(kv.Entry) []kv.Op) {
	p.t.Helper()
	db, err := pebblekv.Open(p.dir, &pebblekv.Options{MustExist: true})
	if err != nil {
		p.t.Fatal(err)
	}
	found := false
	var ops []kv.Op
	for e, err := range db.Scan(p.t.Context(), kv.Range{}) {
		if err != nil {
			p.t.Fatal(err)
		}
		if bytes.Contains(e.Key, part) {
			found = true
			ops = append(ops, change(kv.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})...)
		}
	}
	if !found {
		p.t.Fatalf("no row has %x", part)
	}
	if err := errors.Join(db.Commit(p.t.Context(), &kv.Commit{Ops: ops, Durability: kv.Durable}), db.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// check runs the command, and fails the test if it changes a file.
func (p *planter) check(args ...string) result {
	p.t.Helper()
	before := p.files()
	r := program(p.t.Context(), strings.NewReader(""), append([]string{"check"}, args...)...)
	if after := p.files(); after != before {
		p.t.Errorf("check %q changed the store: it had\n%sand has\n%s", args, before, after)
	}
	return r
}

// files are the sums of the store's files.
func (p *planter) files() string {
	p.t.Helper()
	return sums(p.t, p.dir+string(filepath.Separator))
}

// idOf returns bytes that the keys of an actor's rows, and of its head, have.
func idOf(name string) []byte {
	id := actorstore.IDFromName(name)
	return id.UUID[:]
}

// emptyMessage is a message without a name, of null, as it is stored.
var emptyMessage = []byte{4, 0, 0, 1, 0xf6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// metadataRow and dataRow end the keys of the rows of a key.
var metadataRow, dataRow = []byte{0x15, 0x2c}, []byte{0x15, 0x04}

// A plantedDamage is one kind of damage, and what the check says of it.
type plantedDamage struct {
	name     string
	plant    func(*planter)
	want     string // how the line begins
	harmless bool
}

// needleKey is a part of the keys of the rows of one entry.
var needleKey = []byte("\x04needle\x00\x00")

func mainChunk(n uint32) []byte {
	return actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, n)
}

func plantPut(key, value []byte) func(*planter) {
	return func(p *planter) {
		p.own(func(ctx context.Context, a *actorstore.Actor) error { return a.Put(ctx, key, value) })
	}
}

func plantDelete(key []byte) func(*planter) {
	return func(p *planter) {
		p.own(func(ctx context.Context, a *actorstore.Actor) error { return a.Delete(ctx, key) })
	}
}

// plantEdit changes the rows whose keys contain part.
func plantEdit(part []byte, change func(kv.Entry) []kv.Op) func(*planter) {
	return func(p *planter) { p.rows(part, change) }
}

// plantNeedle changes the rows of needleKey that end so.
func plantNeedle(end []byte, change func(kv.Entry) []kv.Op) func(*planter) {
	return plantEdit(needleKey, func(e kv.Entry) []kv.Op {
		if !bytes.Contains(e.Key[bytes.Index(e.Key, needleKey):], end) {
			return nil
		}
		return change(e)
	})
}

func clearRow(e kv.Entry) []kv.Op { return []kv.Op{kv.Clear(e.Key)} }

var plantedDamages = []plantedDamage{
	{"chunks without metadata", plantDelete(actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileMain)), "music: sqlite/chunks/main/0: ", false},
	{"missing DATA row", plantNeedle(append(dataRow, 0x15, 0x01), clearRow), "music: user/needle: ", false},
	{"missing METADATA row", plantNeedle(metadataRow, clearRow), "music: user/needle: ", false},
	{"extra DATA row", plantNeedle(append(dataRow, 0x15, 0x02), func(e kv.Entry) []kv.Op {
		return []kv.Op{kv.Set(append(e.Key[:len(e.Key)-1:len(e.Key)-1], 9), e.Value)}
	}), "music: user/needle: ", false},
	{"bad BARE", plantNeedle(metadataRow, func(e kv.Entry) []kv.Op {
		return []kv.Op{kv.Set(e.Key, e.Value[:1])}
	}), "music: user/needle: ", false},
	{"unknown namespace", plantEdit(needleKey, func(e kv.Entry) []kv.Op {
		return []kv.Op{kv.Clear(e.Key), kv.Set(bytes.Replace(e.Key, []byte("\x04needle"), []byte("\x77needle"), 1), e.Value)}
	}), "music: unknown/", false},
	{"bad size record", plantPut(actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileMain), []byte("bad")), "music: sqlite/metadata/main: ", false},
	{"missing chunk", plantDelete(mainChunk(3)), "music: sqlite/chunks/main/3: ", false},
	{"chunk beyond the size", plantPut(mainChunk(5000), make([]byte, 4096)), "harmless: music: sqlite/chunks/main/5000: ", true},
	{"chunk too large", plantPut(mainChunk(2), make([]byte, 4097)), "music: sqlite/chunks/main/2: ", false},
	{"a page of garbage", plantPut(mainChunk(4), bytes.Repeat([]byte("garbage "), 512)), "music: sqlite: ", false},
	{"orphan journal", plantPut(actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileJournal, 0), []byte("x")), "harmless: music: sqlite/chunks/journal/0: ", true},
	{"a journal that is over", plantPut(actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileJournal), []byte{1, 0, 0, 2, 0, 0, 0, 0, 0, 0}), "harmless: music: sqlite/metadata/journal: ", true},
	{"wrong used bytes", plantEdit(idOf("music"), func(e kv.Entry) []kv.Op {
		if !bytes.HasPrefix(e.Key, []byte("\x02greenroom\x00")) || len(e.Value) < 40 || bytes.Contains(e.Value, idOf("music")) {
			return nil
		}
		e.Value[18]++
		return []kv.Op{kv.Set(e.Key, e.Value)}
	}), "music: head: it counts ", false},
	{"a head without an actor", plantEdit(idOf("music"), func(e kv.Entry) []kv.Op {
		if bytes.HasPrefix(e.Key, []byte("\x02greenroom\x00")) {
			return nil
		}
		return clearRow(e)
	}), "music: head: it counts ", false},
	{"a message that can't be read", plantPut(actorstore.LayoutGreenroom.AppendQueueMessage(nil, 7), []byte{4, 0, 9}), "music: queue/messages/7: ", false},
	{"messages without metadata", plantPut(actorstore.LayoutGreenroom.AppendQueueMessage(nil, 7), emptyMessage), "music: queue/metadata: it is missing, and there are 1 messages", false},
	{"queue metadata that can't be read", plantPut(actorstore.LayoutGreenroom.AppendQueueMetadata(nil), []byte{4, 0, 9}), "music: queue/metadata: ", false},
	{"a next id that was given", func(p *planter) {
		plantPut(actorstore.LayoutGreenroom.AppendQueueMetadata(nil), []byte{4, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})(p)
		plantPut(actorstore.LayoutGreenroom.AppendQueueMessage(nil, 7), emptyMessage)(p)
	}, "music: queue/metadata: the next id is 7, and 7 was given", false},
	{"a wrong number of messages", plantPut(actorstore.LayoutGreenroom.AppendQueueMetadata(nil), []byte{4, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}),
		"harmless: music: queue/metadata: it counts 1 messages, and there are 0", true},
	{"chunks of traces that are gone", func(p *planter) {
		p.own(func(ctx context.Context, a *actorstore.Actor) error {
			tr, err := traces.Open(ctx, a, nil)
			if err != nil {
				return err
			}
			_, span := tr.Start(ctx, "tick", nil)
			span.End()
			if err := tr.Close(ctx); err != nil {
				return err
			}
			return a.DeleteRange(ctx, []byte{actorstore.NamespaceTraces}, []byte{actorstore.NamespaceTraces + 1})
		})
	}, "music: traces: bucket ", false},
	{"a foreign row", plantEdit(idOf("music"), func(e kv.Entry) []kv.Op {
		return []kv.Op{kv.Set([]byte("\x02greenroom\x00\x15\x01\x15\x63"), []byte("x"))}
	}), "", false},
}

// TestCheckFinds plants each kind of damage in one actor.
func TestCheckFinds(t *testing.T) {
	for _, d := range plantedDamages {
		t.Run(d.name, d.run)
	}
}

// run holds what the check says of the store and of single actors against d.
func (d plantedDamage) run(t *testing.T) {
	p := newPlanter(t)
	if r := p.check(p.dir); r.code != serving.ExitOK || !strings.HasPrefix(r.stdout, "3 actors, ") || !strings.HasSuffix(r.stdout, " keys, no problems\n") {
		t.Fatalf("before: %+v", r)
	}
	d.plant(p)
	d.compare(t, p.check(p.dir))
	for _, actor := range []string{"fine", "id:" + actorstore.IDFromName("nameless").String()} {
		if r := p.check(p.dir, actor); r.code != serving.ExitOK || !strings.HasPrefix(r.stdout, "1 actor, ") {
			t.Errorf("%s alone: %+v", actor, r)
		}
	}
	if r := p.check(p.dir, "music"); r.code != serving.ExitFailed && d.want != "" {
		t.Errorf("the actor alone: %+v", r)
	}
}

// compare holds the report of the whole store against d.
func (d plantedDamage) compare(t *testing.T, r result) {
	t.Helper()
	if r.code != serving.ExitFailed || r.stderr != "" {
		t.Errorf("status %d, %q", r.code, r.stderr)
	}
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	t.Logf("%s", r.stdout)
	found, summary := lines[:len(lines)-1], lines[len(lines)-1]
	hits := 0
	for _, line := range found {
		if strings.HasPrefix(line, d.want) {
			hits++
		}
		if strings.HasPrefix(line, "harmless: ") != d.harmless || strings.Contains(line, "fine") {
			t.Errorf("unexpected: %s", line)
		}
	}
	if hits == 0 {
		t.Errorf("no line begins with %q", d.want)
	}
	if harmless := strings.HasSuffix(summary, " harmless)"); !strings.HasPrefix(summary, "3 actors, ") || harmless != d.harmless || !strings.Contains(summary, " problem") {
		t.Errorf("the summary is %q", summary)
	}
}

// TestCheckBrokenHead damages the head of one actor, at which the list of actors
// ends: others are checked all the same, if they have a name.
func TestCheckBrokenHead(t *testing.T) {
	p := newPlanter(t)
	p.own(func(ctx context.Context, a *actorstore.Actor) error {
		return a.Delete(ctx, actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 3))
	})
	for _, name := range []string{"fine", "nameless"} {
		p.rows(idOf(name), func(e kv.Entry) []kv.Op {
			if !bytes.HasPrefix(e.Key, []byte("\x02greenroom\x00")) || bytes.Contains(e.Value, idOf(name)) || string(e.Value) == name {
				return nil
			}
			return []kv.Op{kv.Set(e.Key, e.Value[:10])}
		})
	}
	r := p.check(p.dir)
	t.Logf("%s", r.stdout)
	if r.code != serving.ExitFailed || r.stderr != "" {
		t.Errorf("status %d, %q", r.code, r.stderr)
	}
	for _, want := range []string{
		"id:" + actorstore.IDFromName("fine").String() + ": head: ",
		"id:" + actorstore.IDFromName("nameless").String() + ": head: ",
		"music: sqlite/chunks/main/3: ",
		"3 actors, ",
	} {
		if strings.Count("\n"+r.stdout, "\n"+want) != 1 {
			t.Errorf("not once: %s", want)
		}
	}
}

// TestCheckJSON reads the lines of a check back.
func TestCheckJSON(t *testing.T) {
	p := newPlanter(t)
	p.own(func(ctx context.Context, a *actorstore.Actor) error {
		return errors.Join(
			a.Delete(ctx, actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 3)),
			a.Put(ctx, actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 5000), []byte("x")),
		)
	})
	for _, args := range [][]string{{p.dir}, {p.dir, "music"}} {
		r := p.check(append(args, "--json")...)
		if r.code != serving.ExitFailed || r.stderr != "" {
			t.Errorf("status %d, %q", r.code, r.stderr)
		}
		lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines: %s", len(lines), r.stdout)
		}
		for i, harmless := range []bool{false, true} {
			var f findingLine
			if err := json.Unmarshal([]byte(lines[i]), &f); err != nil {
				t.Fatal(err)
			}
			id := actorstore.IDFromName("music").String()
			if f.Actor != "music" || f.ID != id || f.Where == "" || f.What == "" || f.Harmless != harmless || f.Unfinished {
				t.Errorf("line %d: %+v", i, f)
			}
		}
		var s summaryLine
		if err := json.Unmarshal([]byte(lines[2]), &s); err != nil {
			t.Fatal(err)
		}
		want := summaryLine{Actors: 4 - len(args), Keys: s.Keys, Problems: 2, Harmless: 1}
		if len(args) == 2 {
			want.Actors = 1
		}
		if s != want || s.Keys == 0 {
			t.Errorf("summary %+v, want %+v", s, want)
		}
	}
}

// TestCheckRefuses: what can't be checked doesn't count as a problem of the store.
func TestCheckRefuses(t *testing.T) {
	p := newPlanter(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{p.dir, "nobody"}, serving.ExitFailed, "greenroom: there is no actor nobody in " + p.dir + "\n"},
		{[]string{p.dir, "id:x"}, serving.ExitUsage, "greenroom: id:x is not the id of an actor"},
		{[]string{p.dir + "x"}, serving.ExitFailed, "greenroom: there is no store at "},
		{nil, serving.ExitUsage, "greenroom: STORE is missing\n"},
	} {
		r := p.check(test.args...)
		if r.code != test.code || r.stdout != "" || !strings.HasPrefix(r.stderr, test.want) {
			t.Errorf("%q: %+v, want %q", test.args, r, test.want)
		}
	}
}

// TestCheckHint: the hint is on the terminal only, and gone before a line is written.
func TestCheckHint(t *testing.T) {
	p := newPlanter(t)
	var hints, stdout, stderr strings.Builder
	e := &env{stdout: &stdout, stderr: &stderr, progress: &hints}
	if code := run(t.Context(), e, []string{"check", p.dir}); code != serving.ExitOK || stderr.String() != "" {
		t.Errorf("status %d, %q", code, stderr.String())
	}
	for _, want := range []string{"checking the store …", "checking music …", "checking id:"} {
		if !strings.Contains(hints.String(), want) {
			t.Errorf("no %q in %q", want, hints.String())
		}
	}
	if shown, hidden := strings.Count(hints.String(), "checking"), strings.Count(hints.String(), "\x1b[K"); shown > hidden || !strings.HasSuffix(hints.String(), "\x1b[K") {
		t.Errorf("shown %d times, hidden %d times", shown, hidden)
	}
	if strings.Contains(stdout.String(), "checking") {
		t.Errorf("in the output: %q", stdout.String())
	}
}

// TestCheckInterrupted ends a check.
func TestCheckInterrupted(t *testing.T) {
	p := newPlanter(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr strings.Builder
	drawn := 0
	e := &env{stdout: &stdout, stderr: &stderr, progress: writerFunc(func() {
		if drawn++; drawn == 3 {
			cancel()
		}
	})}
	if code := run(ctx, e, []string{"check", p.dir}); code != serving.ExitFailed || stderr.String() != "greenroom: interrupted\n" || stdout.String() != "" {
		t.Errorf("status %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

// TestCheckEmpty checks a store in which nothing is.
func TestCheckEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := storeurl.Open(t.Context(), dir, greenroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := must(t, "check", dir); got != "0 actors, 0 keys, no problems\n" {
		t.Errorf("got %q", got)
	}
}
