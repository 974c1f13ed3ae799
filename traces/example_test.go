package traces_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
)

// noon is a clock that stands still: in these examples no hour ends, which would end a chunk.
func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// lobby opens an actor and its traces, in memory.
func lobby(ctx context.Context, opts *traces.Options) (*actorstore.Actor, *traces.Traces) {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	actor, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	t, err := traces.Open(ctx, actor, opts)
	if err != nil {
		log.Fatal(err)
	}
	return actor, t
}

// Traces alone: spans are recorded in an actor and read back, while they run.
func Example_alone() {
	ctx := context.Background()
	_, t := lobby(ctx, nil)
	ctx, join := t.Start(ctx, "join", &traces.StartOptions{Kind: traces.KindServer})
	_, load := t.Start(ctx, "load profile", nil)
	load.Event("cache miss", traces.String("key", "ada"))
	load.End()
	join.SetStatus(traces.StatusError, "the room is full")

	res, err := t.Read(ctx, traces.Query{TraceID: join.TraceID()})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range res.Spans {
		fmt.Println(s.Name, s.Parent == join.SpanID(), s.Running(), s.Status.Message, len(s.Events))
	}
	if err := t.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// join false true the room is full 0
	// load profile true false  1
}

// A query selects by time, name, status and duration, or by whatever a function looks at.
func ExampleTraces_Read() {
	ctx := context.Background()
	_, t := lobby(ctx, nil)
	for i := range 5 {
		s := t.Begin("turn", &traces.StartOptions{Attributes: []traces.Attr{traces.Int("player", int64(i))}})
		if i == 3 {
			s.SetStatus(traces.StatusError, "cheated")
		}
		s.End()
	}
	res, err := t.Read(ctx, traces.Query{
		Start:  time.Now().Add(-time.Hour),
		Name:   "turn",
		Status: []traces.StatusCode{traces.StatusError},
		Limit:  10,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range res.Spans {
		fmt.Println(s.Attributes[0].Key, s.Attributes[0].Value, s.Status.Message, res.Clamped)
	}
	if err := t.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: player 3 cheated false
}

// What was recorded lands in the commit of what it is about, or is written by itself.
func ExampleTraces_In() {
	ctx := context.Background()
	actor, t := lobby(ctx, &traces.Options{Now: noon})
	t.Begin("save", nil).End()
	var b batch.Batch
	b.Put(actorstore.UserKey([]byte("score")), []byte("7"))
	if err := t.In(&b).Flush(ctx); err != nil {
		log.Fatal(err)
	}
	if err := actor.Commit(ctx, &b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(actor.Seq(), t.Stats().Chunks)
	if err := t.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 1 1
}

// Another owner's actor is looked at without owning it.
func ExampleRead() {
	ctx := context.Background()
	engine := memkv.New()
	store, err := actorstore.Open(ctx, engine, nil)
	if err != nil {
		log.Fatal(err)
	}
	actor, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	t, err := traces.Open(ctx, actor, &traces.Options{Now: noon})
	if err != nil {
		log.Fatal(err)
	}
	t.Begin("join", nil).End()
	if err := t.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	view, err := store.View(ctx, actor.ID())
	if err != nil {
		log.Fatal(err)
	}
	res, err := traces.Read(ctx, view.Snapshot, traces.Query{}, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(res.Spans), res.Spans[0].Name, res.Chunks)
	if err := view.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: 1 join 1
}
