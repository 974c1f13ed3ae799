package inspector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// sizes are how much an actor has of each kind in BenchmarkFirstPage: short, quick and long.
var sizes = struct{ actors, rows, messages, entries, spans [3]int }{
	actors: [3]int{10, 100, 100_000}, rows: [3]int{1000, 10_000, 10_000_000}, messages: [3]int{100, 1000, 100_000}, entries: [3]int{10, 100, 10_000},
	spans: [3]int{10, 100, 10_000},
}

// fill makes a store with one actor that has much of everything, and many others.
func fill(b *testing.B, pick func(n [3]int) int) *greenroom.Store {
	ctx := b.Context()
	store, err := greenroom.Open(ctx, filepath.Join(b.TempDir(), "store"), nil)
	testkit.Must(b, err)
	b.Cleanup(func() { testkit.Must(b, store.Close()) })
	for i := range pick(sizes.actors) {
		a, err := store.Actor(ctx, fmt.Sprintf("many/%06d", i), nil)
		testkit.Must(b, err)
		err = a.UpdateApplied(ctx, func(tx *greenroom.Tx) error {
			return errors.Join(tx.Put([]byte("k"), nil), tx.Label("part", fmt.Sprint(i%10)))
		})
		testkit.Must(b, errors.Join(err, a.Close()))
	}
	a, err := store.Actor(ctx, "room", &greenroom.ActorOptions{Traces: &greenroom.TracesOptions{}, Queue: &greenroom.QueueOptions{MaxMessages: 1 << 30}})
	testkit.Must(b, err)
	defer func() { testkit.Must(b, errors.Join(a.Sync(ctx), a.Close())) }()
	testkit.Must(b, a.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Exec("create table t (id integer primary key, name text, n)")
		return err
	}))
	const step = 100_000
	for from := 0; from < pick(sizes.rows); from += step {
		testkit.Must(b, a.UpdateApplied(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Exec("with recursive c(x) as (select ?1 + 1 union all select x + 1 from c where x < ?2) insert into t select x, 'row ' || x, -x from c",
				from, min(from+step, pick(sizes.rows)))
			return err
		}))
	}
	const messages = 1000
	for from := 0; from < pick(sizes.messages); from += messages {
		testkit.Must(b, a.UpdateApplied(ctx, func(tx *greenroom.Tx) error {
			for i := range min(messages, pick(sizes.messages)-from) {
				if _, err := tx.Enqueue(queue.Send{Name: "note", Body: map[string]int{"n": from + i}}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	_, err = greenroom.RunWorkflow(ctx, a, func(c *workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := workflow.StepWith(c, fmt.Sprint("step ", i), &workflow.StepOptions{Unrecorded: true}, func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	}, pick(sizes.entries))
	testkit.Must(b, err)
	tr, err := a.Traces(ctx)
	testkit.Must(b, err)
	inside, root := tr.Start(ctx, "span", nil)
	for i := range pick(sizes.spans) {
		_, span := tr.Start(inside, fmt.Sprint("span ", i), nil)
		span.End()
	}
	root.End()
	return store
}

// BenchmarkFirstPage: what a page takes does not grow with what the store has.
func BenchmarkFirstPage(b *testing.B) {
	store := fill(b, func(n [3]int) int { return testkit.Pick(n[0], n[1], n[2]) })
	r := serve(b, store, &admin.Options{})
	at := r.path("room")
	trace := r.trace(at)
	for _, page := range []struct{ name, path string }{
		{"overview", "/"}, {"actors", "/actors"}, {"labelled", "/actors?label=part%3D7"}, {"actor", at}, {"table", at + "/tables/t"}, {"table-desc", at + "/tables/t?desc=true"}, {"keys", at + "/keys"},
		{"queue", at + "/queue"}, {"workflow", at + "/workflow"}, {"traces", at + "/traces"}, {"trace", trace}, {"sort", at + "/tables/t?sort=n"},
	} {
		b.Run(page.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if resp, body := r.send(http.MethodGet, page.path, nil, bearer(readSecret)); resp.StatusCode != http.StatusOK {
					b.Fatalf("%s: %s", resp.Status, body)
				}
			}
		})
	}
}
