package engine_test

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
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
