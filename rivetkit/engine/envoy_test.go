package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// isEnvoy says whether the program is of RivetKit 2.3.
func (p *program) isEnvoy() bool { return p.version >= rp.Envoy6 }

// envoy connects a program of RivetKit 2.3 with a key.
func (r *rig) envoy(key string) *program {
	r.Helper()
	p := r.program(key, rp.Envoy8)
	p.init("")
	return p
}

// askDatabase says m with a new number, and returns the answer.
func askDatabase[T any](p *program, m func(n uint32) rp.ToEngine) (T, error) {
	p.Helper()
	p.mu.Lock()
	p.kvs++
	n := p.kvs
	p.mu.Unlock()
	p.say(m(n))
	r := heardOf(p, func(r rp.Reply[T]) bool { return r.ID == n })
	if r.Err != nil {
		return r.Result, r.Err
	}
	return r.Result, nil
}

// A far is the database of an actor, as its program has it.
type far struct {
	p    *program
	at   rp.Checkpoint
	head uint64 // which the program takes the database to have
}

// fence says what the program knows.
func (f far) fence() rp.Fence {
	return rp.Fence{Generation: rp.Some(uint64(f.at.Generation)), Head: rp.Some(f.head)}
}

// page returns a page that has text, behind where the first one has SQLite's header.
func page(n uint32, text string) rp.Page {
	data := make([]byte, 4096)
	copy(data[100:], text)
	return rp.Page{Number: n, Data: data}
}

// textOf returns the text of a page.
func textOf(data []byte) string { return string(bytes.Trim(data, "\x00")) }

// commit makes a commit of pages with texts, from the number first on, in a database of size pages.
func (f *far) commit(size, first uint32, texts ...string) error {
	f.p.Helper()
	c := rp.Commit{Actor: f.at.Actor, Size: size, Fence: f.fence()}
	for i, text := range texts {
		c.Pages = append(c.Pages, page(first+uint32(i), text))
	}
	slices.Reverse(c.Pages) // the order is of no account
	got, err := askDatabase[rp.Committed](f.p, func(n uint32) rp.ToEngine { c.ID = n; return c })
	if err == nil {
		f.took(got.Head)
	}
	return err
}

// took follows a commit, whose head must be the next.
func (f *far) took(head rp.Optional[uint64]) {
	f.p.Helper()
	if f.head++; head != rp.Some(f.head) {
		f.p.Errorf("the head is %+v, not %d", head, f.head)
	}
}

// get reads pages, and returns their texts, "-" for one that isn't there. The first reads expect no head.
func (f *far) get(numbers ...uint32) (string, error) {
	f.p.Helper()
	q := rp.GetPages{Actor: f.at.Actor, Numbers: numbers, Fence: f.fence()}
	if q.Fence.Head.Set = f.head > 0; !q.Fence.Head.Set {
		q.Fence.Head.Value = 0
	}
	got, err := askDatabase[rp.Pages](f.p, func(n uint32) rp.ToEngine { q.ID = n; return q })
	if err != nil {
		return "", err
	}
	var texts []string
	for i, page := range got.Pages {
		text := "-"
		if page.Data != nil {
			text = textOf(page.Data)
		}
		if texts = append(texts, text); len(page.Data) != 4096 && page.Data != nil || page.Number != numbers[i] {
			f.p.Errorf("page %d has %d bytes, asked for %d", page.Number, len(page.Data), numbers[i])
		}
	}
	if !got.Head.Set || f.head > 0 && got.Head.Value != f.head {
		f.p.Errorf("the head is %+v, not %d", got.Head, f.head)
	}
	f.head = got.Head.Value
	return strings.Join(texts, " "), nil
}

// has fails the test if the pages haven't these texts.
func (f *far) has(want string, numbers ...uint32) {
	f.p.Helper()
	if got, err := f.get(numbers...); got != want {
		f.p.Errorf("pages %v: %q %v, not %q", numbers, got, err, want)
	}
}

// begin begins a stage, and returns its number.
func (f *far) begin() (uint64, error) {
	f.p.Helper()
	got, err := askDatabase[rp.StageBegun](f.p, func(n uint32) rp.ToEngine { return rp.BeginStage{ID: n, Actor: f.at.Actor, Fence: f.fence()} })
	return got.TxID, err
}

// segment adds a segment to the stage tx.
func (f *far) segment(tx uint64, first uint32, pages ...rp.Page) error {
	f.p.Helper()
	got, err := askDatabase[rp.SegmentStaged](f.p, func(n uint32) rp.ToEngine {
		return rp.StageSegment{ID: n, Actor: f.at.Actor, Generation: f.fence().Generation, TxID: tx, First: first, Pages: pages}
	})
	if err == nil && got.Bytes == 0 && len(pages) > 0 {
		f.p.Errorf("no bytes of %d pages are staged", len(pages))
	}
	return err
}

// finish makes the commit of a stage.
func (f *far) finish(tx uint64, size uint32, segments ...uint32) error {
	f.p.Helper()
	got, err := askDatabase[rp.StageFinished](f.p, func(n uint32) rp.ToEngine {
		return rp.FinishStage{ID: n, Actor: f.at.Actor, Generation: f.fence().Generation, TxID: tx, Size: size, Segments: segments}
	})
	if err == nil {
		f.took(got.Head)
	}
	return err
}

// refused fails the test unless err is one of a program's, and has the text.
func refused(t testing.TB, err error, want string) {
	t.Helper()
	var own *rp.SQLiteError
	if !errors.As(err, &own) || !strings.Contains(own.Error(), want) {
		t.Errorf("%v, not %s", err, want)
	}
}

// farOf starts an actor, and returns its database.
func (p *program) farOf(key string) *far {
	p.Helper()
	at, _ := p.started(p.actor("counter", key))
	return &far{p: p, at: at}
}

// again returns the database for the next start of its actor, which a request wakes.
func (f *far) again(p *program) *far {
	p.Helper()
	p.want(http.StatusOK, "GET /x", "GET", "/gateway/"+f.at.Actor+"/x", "")
	at, _ := p.started(f.at.Actor)
	if at.Generation != f.at.Generation+1 {
		p.Errorf("generation %d behind %d", at.Generation, f.at.Generation)
	}
	return &far{p: p, at: at}
}

// sleep lets the actor sleep.
func (f *far) sleep() {
	f.p.Helper()
	f.p.event(f.at, rp.Intent(rp.IntentSleep))
	f.p.stops(f.at, rp.StopToSleep)
}

// stops waits until the engine wants an actor to stop for a reason.
func (p *program) stops(at rp.Checkpoint, why rp.StopReason) {
	p.Helper()
	c := heardOf(p, func(c rp.Commands) bool {
		_, ok := c[0].Body.(rp.StopActor)
		return ok && c[0].Checkpoint.Actor == at.Actor
	})[0]
	if got := c.Body.(rp.StopActor).Reason; got != why || c.Checkpoint.Index <= 1 || c.Checkpoint.Generation != at.Generation {
		p.Errorf("%+v is told to stop for %d, not %d", c.Checkpoint, got, why)
	}
	synctest.Wait()
}

// holds has the program answer nothing, or answer again.
func (p *program) holds(nothing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = nothing
}

// gone fails the test unless the actor is destroyed.
func (f *far) gone() {
	f.p.Helper()
	synctest.Wait()
	f.p.want(http.StatusOK, `"actors":[]`, "GET", "/actors?actor_ids="+f.at.Actor, "")
	f.p.want(http.StatusBadRequest, "not_found", "GET", "/gateway/"+f.at.Actor+"/x", "")
	id, err := actorstore.ParseID(f.at.Actor)
	must(f.p, err)
	store, err := actorstore.Open(f.p.Context(), f.p.kv, &actorstore.Options{ReadOnly: true})
	must(f.p, err)
	defer func() { must(f.p, store.Close()) }()
	if _, err := store.View(f.p.Context(), id); !errors.Is(err, actorstore.ErrUnknownActor) {
		f.p.Errorf("it is stored: %v", err)
	}
}

// TestEnvoyArrives: a program of RivetKit 2.3 asks for what it needs in its order, is told how to behave unasked, and its actors' first command has the number 1.
func TestEnvoyArrives(t *testing.T) {
	for _, v := range []rp.Version{rp.Envoy6, rp.Envoy8} {
		t.Run(v.String(), func(t *testing.T) {
			r := newRig(t, engine.Options{Version: "1.2"})
			r.want(200, `"runtime":"engine"`, "GET", "/health", "")
			var places struct {
				Datacenters []struct{ Name, URL string }
			}
			must(t, json.Unmarshal([]byte(r.want(200, "", "GET", "/datacenters?namespace=default", "")), &places))
			if len(places.Datacenters) != 1 || places.Datacenters[0].Name != "default" || places.Datacenters[0].URL != r.url+"/" {
				t.Errorf("%+v", places)
			}
			r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=default", "")
			r.want(200, `{"endpoint_config_changed":false}`, "PUT", "/runner-configs/default?namespace=default", `{"datacenters":{"default":{"drain_on_version_upgrade":true,"normal":{}}}}`)
			r.want(200, `"envoy_protocol_version":8`, "GET", "/metadata", "")
			p := r.program("k", v)
			hello := heardOf(p, func(rp.EngineInit) bool { return true })
			if want := (rp.EngineInit{LostThreshold: 15_000, StopThreshold: 30_000, MaxResponse: 20 << 20}); hello != want {
				t.Errorf("%+v, not %+v", hello, want)
			}
			id := r.actor("counter", "a")
			at, start := p.started(id)
			if at.Generation != 1 || at.Index != 1 || start.Name != "counter" || start.Key != rp.Some("a") || start.Preloaded.Set {
				t.Errorf("%+v %+v", at, start)
			}
			var list struct {
				Envoys []struct {
					Key   string `json:"envoy_key"`
					Pool  string `json:"pool_name"`
					Slots int
				}
			}
			must(t, json.Unmarshal([]byte(r.want(200, "", "GET", "/envoys?namespace=default&name=default", "")), &list))
			if len(list.Envoys) != 1 || list.Envoys[0].Key != "k" || list.Envoys[0].Pool != "default" || list.Envoys[0].Slots != 1 {
				t.Errorf("%+v", list)
			}
			r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=services", "")
			p.say(rp.RunnerInit{ActorNames: []rp.ActorName{{Name: "counter", Metadata: "{}"}}})
			eventually(t, "its types are known", func() bool {
				_, text := r.call("GET", "/metadata", "")
				return strings.Contains(text, `"counter"`)
			})
			r.want(200, "POST /action/x?y=z body", "POST", "/gateway/"+id+"/action/x?y=z", "body")
			if req := toActor[rp.RequestStart](p).Body.(rp.RequestStart); req.StreamResponse || req.Generation.Set || req.Stream {
				t.Errorf("%+v", req)
			}
			if got, ok := p.keys(id, rp.KVList{Query: rp.KVAll{}, Limit: rp.Some(uint64(1))}).(rp.KVListed); !ok || len(got.Entries) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestEnvoyRefused: a program that speaks another version is told so, and so is the log.
func TestEnvoyRefused(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.close()
	var log bytes.Buffer
	r.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.start()
	for path, want := range map[string]string{
		"/envoys/connect?protocol_version=5&envoy_key=k&pool_name=default&namespace=default":   "2.3.5 to 2.3.19",
		"/envoys/connect?protocol_version=7&envoy_key=k&pool_name=default&namespace=default":   "version isn't 6 or 8",
		"/envoys/connect?protocol_version=8&envoy_key=k&namespace=default":                     "pool is missing",
		"/envoys/connect?protocol_version=8&pool_name=default&namespace=default":               "key is missing",
		"/envoys/connect?protocol_version=8&envoy_key=k&pool_name=default&namespace=nowhere":   "namespace",
		"/runners/connect?protocol_version=8&runner_key=k&pool_name=default&namespace=default": "/envoys/connect",
	} {
		r.want(http.StatusBadRequest, want, "GET", path, "")
	}
	if got := strings.Count(log.String(), "a program is refused"); got != 4 || !strings.Contains(log.String(), "version=7") {
		t.Errorf("%d refusals in the log:\n%s", got, &log)
	}
}

// TestEnvoyUndecodable: a message that isn't of the version ends the connection, with a line in the log.
func TestEnvoyUndecodable(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.envoy("k")
	must(t, p.ws.Write(t.Context(), websocket.MessageBinary, []byte{99, 1, 2}))
	<-p.ended
	r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=default", "")
}

// TestDatabase: a database is empty at first, and then what was committed, with the head of the last commit.
func TestDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		_, err := f.get(1)
		refused(t, err, "sqlite database was not found in this bucket branch")
		must(t, f.commit(3, 1, "one", "two", "three"))
		f.has("three - one", 3, 4, 1)
		must(t, f.commit(4, 4, "four"))
		must(t, f.commit(2, 1)) // it shrinks
		f.has("one two - -", 1, 2, 3, 4)
		must(t, f.commit(3, 3, "new"))
		f.has("one two new - -", 1, 2, 3, 4, 0)
		if f.head != 4 {
			t.Errorf("head %d", f.head)
		}
		for _, bad := range []func(*far) error{
			func(f *far) error { return f.commit(3, 3, "x", "behind the end") },
			func(f *far) error { return f.commit(3, 0, "x") },
			func(f *far) error {
				_, err := askDatabase[rp.Committed](f.p, func(n uint32) rp.ToEngine {
					return rp.Commit{ID: n, Actor: f.at.Actor, Size: 3, Fence: f.fence(), Pages: []rp.Page{page(1, "x"), page(1, "y")}}
				})
				return err
			},
			func(f *far) error {
				_, err := askDatabase[rp.Committed](f.p, func(n uint32) rp.ToEngine {
					return rp.Commit{ID: n, Actor: f.at.Actor, Size: 3, Fence: f.fence(), Pages: []rp.Page{{Number: 1, Data: []byte("short")}}}
				})
				return err
			},
		} {
			refused(t, bad(f), "invalid_request")
		}
		f.has("one two new", 1, 2, 3)
		f.sleep()
		f = f.again(f.p)
		f.has("one two new -", 1, 2, 3, 4)
		if f.head != 4 {
			t.Errorf("head %d after its sleep", f.head)
		}
		must(t, f.commit(3, 2, "2"))
		f.has("one 2 new", 1, 2, 3)
	})
}

// TestPagesMany: as many pages are read at once as fit into a message, and one more is refused, which is said.
func TestPagesMany(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(1, 1, "one"))
		all := slices.Repeat([]uint32{1}, 4096)
		f.has(strings.TrimSuffix(strings.Repeat("one ", len(all)), " "), all...)
		_, err := f.get(append(all, 1)...)
		refused(t, err, "invalid_request")
		f.has("one", 1)
	})
}

// TestPagesDurable: each commit is one of the store, which waits for stable storage, and a read is none.
func TestPagesDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, memkv.New())
		s.version = rp.Envoy8
		s.begin()
		f := s.p.farOf("a")
		must(t, f.commit(3, 1, "one", "two", "three"))
		synctest.Wait()
		s.faults.Reset()
		must(t, f.commit(2, 1, "1"))
		f.has("1 two -", 1, 2, 3)
		tx, err := f.begin()
		must(t, err)
		must(t, f.segment(tx, 0, page(1, "i"), page(2, "ii")))
		must(t, f.segment(tx, 320, page(321, "cccxxi")))
		must(t, f.finish(tx, 321, 0, 320))
		if c := s.faults.Counts(); c.Commits != 2 || c.Durable != 2 || c.Syncs != 0 {
			t.Errorf("%+v", c)
		}
		f.has("i ii - cccxxi", 1, 2, 322, 321)
		s.end()
	})
}

// TestPagesFenced: what comes from another state of the actor than the one that there is changes nothing.
func TestPagesFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(1, 1, "one"))
		for _, head := range []uint64{0, 2} {
			other := *f
			other.head = head
			refused(t, other.commit(1, 1, "x"), "head_fence_mismatch")
			_, err := other.begin()
			refused(t, err, "head_fence_mismatch")
			if head > 0 {
				_, err = other.get(1)
				refused(t, err, "head_fence_mismatch")
			}
		}
		q := r.envoy("l")
		older, elsewhere, nowhere := *f, *f, *f
		older.at.Generation = 0
		elsewhere.p = q
		nowhere.at.Actor = actorstore.NewID().String()
		for _, other := range []*far{&older, &elsewhere, &nowhere} {
			refused(t, other.commit(1, 1, "x"), "actor does not exist")
			_, err := other.get(1)
			refused(t, err, "actor does not exist")
			_, err = other.begin()
			refused(t, err, "actor does not exist")
			refused(t, other.segment(2, 0, page(1, "x")), "actor does not exist")
			refused(t, other.finish(2, 1, 0), "actor does not exist")
		}
		f.has("one", 1)
		must(t, f.commit(1, 1, "two"))
		f.sleep()
		refused(t, f.commit(1, 1, "x"), "actor does not exist")
		f.again(p).has("two", 1)
	})
}

// TestStages: a commit in parts is made of the parts that its end names, and of no others.
func TestStages(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(1, 1, "one"))
		begin := func(want string) uint64 {
			t.Helper()
			tx, err := f.begin()
			must(t, err)
			if tx != f.head+1 {
				t.Errorf("the stage is %d, not %d", tx, f.head+1)
			}
			must(t, f.segment(tx, 0, page(1, want), page(2, want)))
			must(t, f.segment(tx, 320, page(321, want)))
			f.has("one -", 1, 2)
			return tx
		}
		tx := begin("a segment is missing")
		refused(t, f.finish(tx, 700, 0, 320, 640), "stage_not_found")
		refused(t, f.finish(tx+1, 321, 0, 320), "stage_not_found")
		refused(t, f.segment(tx+1, 640, page(641, "x")), "stage_not_found")
		f.has("one", 1)
		tx = begin("another begins")
		_, err := f.begin()
		must(t, err)
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		tx = begin("a commit comes")
		must(t, f.commit(1, 1, "one"))
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		refused(t, f.segment(tx, 0, page(1, "x")), "stage_not_found")
		tx = begin("it stops")
		f.sleep()
		f = f.again(f.p)
		f.has("one -", 1, 2)
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		refused(t, f.segment(tx, 0, page(1, "x")), "stage_not_found")
		tx = begin("beyond the end")
		refused(t, f.finish(tx, 320, 0, 320), "invalid_request")
		tx = begin("replaced")
		must(t, f.segment(tx, 0, page(1, "1"), page(3, "3")))
		must(t, f.segment(tx, 640, page(641, "isn't named")))
		must(t, f.finish(tx, 1000, 0, 320))
		f.has("1 - 3 replaced - -", 1, 1001, 3, 321, 1001, 1002)
		f.has("  ", 2, 641, 1000)
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		must(t, f.commit(1, 1))
		f.has("1 -", 1, 2)
	})
}

// TestStageLarge: a commit in parts of several thousand pages is one of the store, whatever engine that has, and one of more than 64 MiB is refused.
func TestStageLarge(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) kv.Engine{
		"memkv": func(*testing.T) kv.Engine { return memkv.New() },
		"pebblekv": func(t *testing.T) kv.Engine {
			e, err := pebblekv.Open(t.TempDir(), nil)
			must(t, err)
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := faultkv.New(open(t))
			r := &rig{TB: t, kv: f, opts: quiet()}
			r.start()
			t.Cleanup(func() { must(t, r.kv.Close()) })
			d := r.envoy("k").farOf("a")
			must(t, d.commit(1, 1, "one"))
			f.Reset()
			stage := func(segments int) (tx uint64, names []uint32, err error) {
				tx, err = d.begin()
				must(t, err)
				for i := range segments {
					first := uint32(i) * 320
					var pages []rp.Page
					for n := range uint32(320) {
						pages = append(pages, page(first+n+1, "large"))
					}
					if err := d.segment(tx, first, pages...); err != nil {
						return tx, nil, err
					}
					names = append(names, first)
				}
				return tx, names, nil
			}
			const segments = 51 // 16,320 pages, 63.75 MiB
			tx, names, err := stage(segments)
			must(t, err)
			must(t, d.finish(tx, segments*320, names...))
			if c := f.Counts(); c.Commits != 1 || c.Durable != 1 {
				t.Errorf("%+v", c)
			}
			d.has("large large large -", 1, 5000, segments*320, segments*320+1)
			_, _, err = stage(segments + 1)
			refused(t, err, "commit_too_large")
			refused(t, d.finish(tx+1, segments*320, names...), "stage_not_found")
			d.has("large", 1)
			must(t, d.commit(1, 1))
			r.close()
			r.start()
			d.p = r.reconnect("", "k", d.p)
			d.has("large -", 1, 2)
			r.close()
		})
	}
}

// TestPagesRefused: a commit that the store has no room for is refused, is as if it had never been, and the next one is made.
func TestPagesRefused(t *testing.T) {
	for want, why := range map[string]error{"quota_exceeded": errkind.ErrQuota, "no_space": errkind.ErrNoSpace} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, memkv.New())
				s.version = rp.Envoy8
				s.begin()
				f := s.p.farOf("a")
				must(t, f.commit(3, 1, "one", "two", "three"))
				s.faults.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(why)})
				refused(t, f.commit(2, 1, "x"), want)
				f.has("one two three", 1, 2, 3)
				must(t, f.commit(2, 2, "2"))
				f.has("one 2 -", 1, 2, 3)
				s.end()
			})
		})
	}
}

// TestStopReasons: an actor is told why it stops, and what becomes of it then is what the reason says.
func TestStopReasons(t *testing.T) {
	t.Run("sleep", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			f.sleep()
			f.again(f.p).has("one", 1)
		})
	})
	t.Run("stop", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			f.p.event(f.at, rp.Intent(rp.IntentStop))
			f.p.stops(f.at, rp.StopAsWished)
			f.gone()
		})
	})
	t.Run("destroy", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			r.want(200, "{}", "DELETE", "/actors/"+f.at.Actor, "")
			f.p.stops(f.at, rp.StopToDestroy)
			f.gone()
		})
	})
	t.Run("stopping", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			p := r.envoy("k")
			f := p.farOf("a")
			must(t, f.commit(1, 1, "one"))
			p.say(rp.Stopping{})
			p.stops(f.at, rp.StopGoingAway)
			r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=default", "")
			f.again(r.envoy("l")).has("one", 1)
		})
	})
	t.Run("shutdown", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			must(t, r.engine.Shutdown(t.Context()))
			f.p.stops(f.at, rp.StopGoingAway)
			r.stop()
			r.start()
			f.again(r.reconnect("", "k", f.p)).has("one", 1)
		})
	})
	t.Run("start takes too long", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.close()
			r.opts.StartThreshold = 5 * time.Second
			r.start()
			p := r.envoy("k")
			p.holds(true)
			f := p.farOf("a")
			pass(6 * time.Second)
			p.stops(f.at, rp.StopLost)
		})
	})
}

// TestStoppedUnasked: an actor that has ended by itself without a wish is destroyed, and one that has ended by an error, or with its program, sleeps.
func TestStoppedUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(f *far)
		gone bool
	}{
		"well":     {func(f *far) { f.p.event(f.at, rp.Stopped{}) }, true},
		"by error": {func(f *far) { f.p.event(f.at, rp.Stopped{Code: 1, Message: rp.Some("boom")}) }, false},
		"lost":     {func(f *far) { must(f.p, f.p.ws.CloseNow()); pass(16 * time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				f := r.envoy("k").farOf("a")
				must(t, f.commit(1, 1, "one"))
				c.end(f)
				synctest.Wait()
				if c.gone {
					f.gone()
					return
				}
				if name == "lost" {
					f.p = r.envoy("l")
				}
				f.again(f.p).has("one", 1)
			})
		})
	}
}

// TestStoppedUnknown: an actor that stops because the engine before has told it so isn't destroyed, though this engine doesn't know that.
func TestStoppedUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(1, 1, "one"))
		p.holds(true) // it takes its time
		f.sleep()
		heardOf(p, func(a rp.AckEvents) bool { return a[0].Actor == f.at.Actor && a[0].Index == 1 })
		r.close()
		<-p.ended
		p.mu.Lock()
		p.unacked = nil
		p.mu.Unlock()
		r.start()
		p = r.reconnect("", "k", p)
		p.event(f.at, rp.Stopped{})
		synctest.Wait()
		f.again(p).has("one", 1)
	})
}

// TestEnvoyHibernates: a socket outlives the sleep of its actor: its messages keep their numbers, and wait until the actor has opened the socket again.
func TestEnvoyHibernates(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		ws := r.dial("/gateway/"+f.at.Actor+"/connect", "rivet")
		tunnel := toActor[rp.SocketOpen](p).ID.Tunnel
		say := func(text string) {
			must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
			synctest.Wait()
		}
		comes := func(text string, index uint16) {
			t.Helper()
			if m := toActor[rp.SocketMessage](p); string(m.Body.(rp.SocketMessage).Data) != text || m.ID != (rp.MessageID{Tunnel: tunnel, Index: index}) {
				t.Errorf("%+v, not %s %d", m, text, index)
			}
		}
		nothing := func() {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, m := range p.heard {
				if m, ok := m.(rp.ToActor); ok {
					t.Errorf("%+v", m)
				}
			}
		}
		say("one")
		comes("one", 1)
		p.toClient(tunnel, rp.SocketAck{Index: 1})
		say("two")
		comes("two", 2) // it isn't acknowledged
		p.holds(true)
		f.sleep()
		p.event(f.at, rp.Stopped{})
		at, start := p.started(f.at.Actor) // by the message
		if len(start.Hibernating) != 1 || start.Hibernating[0] != tunnel || at.Generation != 2 {
			t.Errorf("%+v %+v", at, start)
		}
		nothing()
		say("three")
		p.mu.Lock()
		p.has[at.Actor], p.indices[tunnel] = at.Generation, 0
		p.mu.Unlock()
		p.event(at, rp.Running{})
		nothing()
		p.toClient(tunnel, rp.SocketAccept{CanHibernate: true})
		comes("two", 2)
		comes("three", 3)
		p.toClient(tunnel, rp.SocketMessage{Data: []byte("answer")})
		if got := p.text(ws); got != "answer" {
			t.Errorf("%q", got)
		}
		p.toClient(tunnel, rp.SocketAck{Index: 3})
		p.holds(false)
		f.at = at
		f.sleep()
		nothing()
		p.notStarted(f.at.Actor)
		say("four")
		at, _ = p.started(f.at.Actor)
		comes("four", 4)
		p.toClient(tunnel, rp.SocketAck{Index: 4})
		// A client that leaves while the actor sleeps isn't named at its next start.
		f.at = at
		f.sleep()
		must(t, ws.Close(websocket.StatusNormalClosure, ""))
		synctest.Wait()
		r.want(200, "GET /x", "GET", "/gateway/"+f.at.Actor+"/x", "")
		if _, start := p.started(f.at.Actor); len(start.Hibernating) != 0 {
			t.Errorf("%+v", start)
		}
	})
}

// TestEnvoyTakenOver: an envoy that comes back to the engine that follows has its actors still, in their generation and with their head, and says again what wasn't acknowledged.
func TestEnvoyTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		for range 2 {
			r.reopen()
			pass(10 * time.Second)
			p = r.reconnect("", "k", p)
			f.p = p
			f.has("one two", 1, 2)
			must(t, f.commit(2, 1, "one"))
			r.want(200, "GET /x", "GET", "/gateway/"+f.at.Actor+"/x", "")
			p.notStarted(f.at.Actor)
		}
		r.close()
		<-p.ended
		p.mu.Lock()
		p.unacked = append(p.unacked, rp.Event{Checkpoint: rp.Checkpoint{Actor: f.at.Actor, Generation: 1, Index: 1}, Body: rp.Intent(rp.IntentSleep)})
		p.events[f.at.Actor+"/1"] = 2
		p.mu.Unlock()
		r.start()
		p = r.reconnect("", "k", p)
		p.stops(f.at, rp.StopToSleep)
		f.p, f.at.Generation, f.head = p, 2, 0
		p.started(f.at.Actor) // its alarm isn't known
		f.has("one two", 1, 2)
	})
}

// TestEnvoyTooLate: an envoy that comes back when it was given up has stopped its actors, which it says: they are started on it at once. One that doesn't say so has its time to stop them.
func TestEnvoyTooLate(t *testing.T) {
	for name, says := range map[string]bool{"it says so": true, "it doesn't": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.envoy("k")
				f := p.farOf("a")
				must(t, f.commit(1, 1, "one"))
				must(t, p.ws.CloseNow())
				<-p.ended
				pass(20 * time.Second)
				old := *f
				p.mu.Lock()
				p.has = map[string]uint32{}
				if p.unacked = nil; says {
					p.unacked = []rp.Event{{Checkpoint: rp.Checkpoint{Actor: f.at.Actor, Generation: 1, Index: 1}, Body: rp.Stopped{Code: 1, Message: rp.Some("actor lost due to timeout")}}}
				}
				p.mu.Unlock()
				p = r.reconnect("", "k", p)
				if !says {
					old.p = p
					refused(t, old.commit(1, 1, "x"), "actor does not exist")
					pass(31 * time.Second)
				}
				f.again(p).has("one", 1)
			})
		})
	}
}

// TestCommitLost: a commit whose answer is lost with the connection isn't made twice. The program, which takes it for one that wasn't made, is told that the database has another head; its actor ends
// then, and has the truth when it starts.
func TestCommitLost(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		p.mu.Lock()
		p.deaf = true // the answer doesn't come
		p.mu.Unlock()
		p.say(rp.Commit{ID: 100, Actor: f.at.Actor, Size: 3, Fence: f.fence(), Pages: []rp.Page{page(1, "lost"), page(3, "three")}})
		synctest.Wait()
		_ = p.ws.CloseNow() // its reader has ended
		p = r.reconnect("", "k", p)
		f.p = p
		refused(t, f.commit(2, 2, "x"), "head_fence_mismatch")
		p.event(f.at, rp.Stopped{Code: 1})
		synctest.Wait()
		f = f.again(p)
		f.has("lost two three", 1, 2, 3)
		must(t, f.commit(3, 2, "2"))
	})
}

// TestEnvoyStored: what the store has of an actor's database is one of RivetKit's own, with the head beside it.
func TestEnvoyStored(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		must(t, f.commit(2, 2, "2"))
		id, err := actorstore.ParseID(f.at.Actor)
		must(t, err)
		store, err := actorstore.Open(t.Context(), r.kv, &actorstore.Options{ReadOnly: true})
		must(t, err)
		defer func() { must(t, store.Close()) }()
		v, err := store.View(t.Context(), id)
		must(t, err)
		defer func() { must(t, v.Close()) }()
		value, err := v.Get(t.Context(), rivetstore.HeadKey(), nil)
		must(t, err)
		if head, err := rivetstore.ParseHead(value); head != 2 || err != nil {
			t.Errorf("head %d %v", head, err)
		}
		for n, want := range []string{"one", "2"} {
			value, err := v.Get(t.Context(), []byte{8, 1, 1, 0, 0, 0, 0, byte(n)}, nil)
			if must(t, err); len(value) != 4096 || textOf(value) != want {
				t.Errorf("%d bytes, %q", len(value), textOf(value))
			}
		}
	})
}
