package main

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// rivetKitStore makes a store with what a program on RivetKit 2.1.5 has stored: a room with state, a
// queue, user keys, a scheduled event, a hibernating connection and traces; a ledger with a database of
// 200 rows; an order with a workflow. It returns the id of the connection. Actors that aren't asleep aren't found by what they store.
func rivetKitStore(t *testing.T, dir string, asleep bool) (connection string) {
	t.Helper()
	return loadRivetKit(t, dir, "testdata/rivetkit/store-2.1.5.json.gz", asleep)
}

// loadRivetKit makes a store of a file with the keys of its actors.
func loadRivetKit(t *testing.T, dir, file string, asleep bool) (connection string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var dump struct {
		Seen   struct{ ConnID string }
		Actors []struct {
			Name, Key string
			KV        [][2]string
		}
	}
	if err := json.NewDecoder(z).Decode(&dump); err != nil {
		t.Fatal(err)
	}
	engine, err := pebblekv.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	store, err := actorstore.Open(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, a := range dump.Actors {
		actor, err := store.Named(t.Context(), strings.TrimSuffix(a.Name+"/"+a.Key, "/"), &actorstore.ActorOptions{Layout: actorstore.LayoutRivetKit})
		if err != nil {
			t.Fatal(err)
		}
		var b batch.Batch
		for _, e := range a.KV {
			k, err := hex.DecodeString(e[0])
			v, verr := hex.DecodeString(e[1])
			if err != nil || verr != nil {
				t.Fatal(err, verr)
			}
			b.Put(k, v)
		}
		err = actor.Commit(t.Context(), &b)
		if err == nil && asleep {
			err = attributes.Repair(t.Context(), actor)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := actor.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dump.Seen.ConnID
}

// TestRivetKitStore reads all that RivetKit has stored with the program's commands, there and in copies.
func TestRivetKitStore(t *testing.T) {
	store := t.TempDir() + "/data"
	connection := rivetKitStore(t, store, true)
	checkRivetKit(t, store)
	const room = `room/golden/a\/b`
	for _, of := range []string{room, room + " again"} {
		if got := must(t, "traces", "ls", store, of); !strings.Contains(got, "bump") {
			t.Errorf("the traces of %s are %q", of, got)
		}
	}
	if got := must(t, "conns", "ls", store, room); !strings.Contains(got, connection) {
		t.Errorf("the connections are %q, want %q among them", got, connection)
	}
	if got := must(t, "check", store); !strings.Contains(got, "no problems") {
		t.Errorf("check says %q", got)
	}
}

// TestRivetKitTables reads the same of a store that a program on RivetKit 2.3.19 has opened since, which has moved it to tables of the actors' databases, and counted up once.
func TestRivetKitTables(t *testing.T) {
	store := t.TempDir() + "/data"
	loadRivetKit(t, store, "testdata/rivetkit/store-2.3.19.json.gz", false)
	checkRivetKit(t, store)
	const room = `room/golden/a\/b`
	for _, of := range []string{room, room + " again"} {
		got := must(t, "state", "show", store, of)
		for _, want := range []string{`"n":3`, `"big":["$BigInt","12345678901234567890"]`, "ring", "2100-01-01"} {
			if !strings.Contains(got, want) {
				t.Errorf("the state of %s is %s", of, got)
			}
		}
		for _, args := range [][]string{{"queue", "send", store, of, "jobs", "1"}, {"put", store, of, "greeting", "other"}} {
			if r := program(t.Context(), strings.NewReader(""), args...); r.code != serving.ExitFailed || !strings.Contains(r.stderr, "program alone writes this") {
				t.Errorf("%q: status %d, %s", args, r.code, r.stderr)
			}
		}
		must(t, "sql", store, of, "update _rivet_queue set name = 'other' where id = 1")
		if got := must(t, "queue", "ls", store, of); !strings.Contains(got, "1\tother\tready") {
			t.Errorf("the queue is %s", got)
		}
	}
	if got := must(t, "workflow", "ls", store); !strings.Contains(got, "order/o1") {
		t.Errorf("the workflows are %s", got)
	}
	if got := must(t, "check", store); !strings.Contains(got, "no problems") {
		t.Errorf("check says %q", got)
	}
}

// TestRivetKitEngine reads what a program on RivetKit 2.2.1 left in greenroom engine, which was killed while a connection was open. Then it reads the same store after a program on
// 2.3.19, over a connection of its own, counted up once more, and added an entry to the ledger. What is wanted is what each program saw.
func TestRivetKitEngine(t *testing.T) {
	t.Parallel()
	const room, ledger = `room/golden/a\/b`, "ledger/books"
	for _, tt := range []struct {
		file, state string
		added       string // entries of the second program
	}{
		{"store-2.2.1", `"n":2,"list":[1,"two",3.5,null],"bytes":"AQID","big":12345678901234567890,"when":"2023-11-14T22:13:20Z","nested":{"map":[{"Key":"a","Value":1}],"set":["x"]}`, "0\n"},
		{"store-2.2.1-2.3.19", `"n":3,"list":[1,"two",3.5,null],"bytes":["$Uint8Array","AQID"],"big":["$BigInt","12345678901234567890"],"when":"2023-11-14T22:13:20Z","nested":{"map":[{"Key":"a","Value":1}],"set":["$Set",["x"]]}`, "1\n"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			store := t.TempDir() + "/data"
			connection := loadRivetKit(t, store, "testdata/rivetkit/"+tt.file+".json.gz", true)
			checkRivetKit(t, store)
			if got := must(t, "conns", "ls", store, room); !strings.HasPrefix(got, connection+"\t") || strings.Count(got, "\n") != 1 || !strings.Contains(got, "\tbumped\t/connect\t") {
				t.Errorf("the connections are %q, want %q", got, connection)
			}
			for _, again := range []string{"", " again"} {
				got := must(t, "state", "show", store, room+again)
				for _, want := range []string{`"title":"Gölden",` + tt.state, "2100-01-01T00:00:00.000Z\tring\t[{\"loud\":true},3]"} {
					if !strings.Contains(got, want) {
						t.Errorf("the state of the room%s is %s, want %s in it", again, got, want)
					}
				}
				if got := must(t, "sql", store, ledger+again, "select count(*) from entry where what = 'new'"); got != tt.added {
					t.Errorf("%s entries are new, want %s", got, tt.added)
				}
			}
			if got := must(t, "check", store); !strings.Contains(got, "no problems") || strings.Contains(got, "note") {
				t.Errorf("check says %q", got)
			}
		})
	}
}

// checkRivetKit reads what the actors of RivetKit's program have stored, there and in copies.
func checkRivetKit(t *testing.T, store string) {
	t.Helper()
	const room, ledger, order = `room/golden/a\/b`, "ledger/books", "order/o1"
	for _, of := range []string{room, ledger, order} {
		must(t, "fork", store, of, of+" again")
	}
	for _, again := range []string{"", " again"} {
		for _, tt := range []struct {
			args []string
			want []string // in the output
		}{
			{[]string{"state", "show", store, room + again}, []string{"Gölden"}},
			{[]string{"queue", "ls", store, room + again}, []string{"1\tjobs\tready", "2\tjobs\tready", "3\tlater\tready"}},
			{[]string{"queue", "stats", store, room + again}, []string{"jobs\t2\t2", "later\t1\t1"}},
			{[]string{"get", store, room + again, "greeting"}, []string{"hello"}},
			{[]string{"sql", store, ledger + again, "select count(*), sum(amount) from entry where what like 'entry %'; pragma integrity_check"}, []string{"200|29850.0\n", "ok\n"}},
			{[]string{"sql", store, ledger + again, "insert into entry(what) values ('by greenroom'); select count(*) from entry where what = 'by greenroom'"}, []string{"1\n"}},
			{[]string{"workflow", "show", store, order + again}, []string{"completed", "price", "flaky", "poll", "for long"}},
		} {
			got := must(t, tt.args...)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q: got %q, want %q in it", tt.args, got, want)
				}
			}
		}
		for _, of := range []string{room, ledger, order} {
			if got := must(t, "ls", store, of+again); strings.Contains(got, "unknown/") {
				t.Errorf("the keys of %s are %s", of, got)
			}
		}
	}
}

// TestRivetKitAwake: what an actor is found by that hasn't fallen asleep since is a note, and no problem.
func TestRivetKitAwake(t *testing.T) {
	store := t.TempDir() + "/data"
	rivetKitStore(t, store, false)
	r := program(t.Context(), strings.NewReader(""), "check", store)
	if r.code != serving.ExitOK || !strings.Contains(r.stdout, "note: order/") || !strings.Contains(r.stdout, "its next sleep") || !strings.Contains(r.stdout, "no problems") {
		t.Errorf("check: %+v", r)
	}
	if got := must(t, "check", "--repair", store); !strings.Contains(got, "no problems") {
		t.Errorf("check --repair says %q", got)
	}
	if got := must(t, "check", store); strings.Contains(got, "note: order/") {
		t.Errorf("check after that says %q", got)
	}
}
