package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// open is what every example begins with.
func open(ctx context.Context, opts *queue.Options) (*actorstore.Actor, *queue.Queue) {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	check(err)
	actor, err := store.Named(ctx, "lobby", nil)
	check(err)
	q, err := queue.Open(ctx, actor, opts)
	check(err)
	return actor, q
}

// A queue alone, on an actor that has nothing else.
func Example_alone() {
	ctx := context.Background()
	_, q := open(ctx, nil)
	defer q.Close()

	_, err := q.Enqueue(ctx, queue.Send{Name: "greeting", Body: map[string]any{"hello": "world"}})
	check(err)

	msgs, err := q.Receive(ctx, nil) // waits for a message
	check(err)
	for _, m := range msgs {
		var body struct{ Hello string }
		check(m.Decode(&body))
		fmt.Println(m.ID, m.Name, body.Hello)
		check(m.Complete(ctx, nil))
	}
	// Output: 1 greeting world
}

// A worker takes one message after the other.
func ExampleQueue_All() {
	ctx := context.Background()
	_, q := open(ctx, nil)
	defer q.Close()
	_, err := q.EnqueueAll(ctx, []queue.Send{{Name: "job", Body: "sweep"}, {Name: "job", Body: "mop"}})
	check(err)

	for m, err := range q.All(ctx, &queue.ReceiveOptions{Names: []string{"job"}, Timeout: time.Millisecond}) {
		check(err)
		var what string
		check(m.Decode(&what))
		fmt.Println(what)
		check(m.Complete(ctx, nil))
	}
	// Output:
	// sweep
	// mop
}

// The sender gets what the receiver completes with.
func ExampleQueue_EnqueueAndWait() {
	ctx := context.Background()
	_, q := open(ctx, nil)
	defer q.Close()
	go func() {
		msgs, err := q.Receive(ctx, &queue.ReceiveOptions{Names: []string{"double"}})
		check(err)
		var n int
		check(msgs[0].Decode(&n))
		check(msgs[0].Complete(ctx, 2*n))
	}()

	response, err := q.EnqueueAndWait(ctx, queue.Send{Name: "double", Body: 21}, time.Minute)
	check(err)
	var n int
	check(response.Decode(&n))
	fmt.Println(n)
	// Output: 42
}

// A lease that is over isn't good any more, wherever the message is now.
func ExampleReceipt() {
	ctx := context.Background()
	_, q := open(ctx, nil)
	defer q.Close()
	_, err := q.Enqueue(ctx, queue.Send{Name: "job"})
	check(err)
	msgs, err := q.TryReceive(ctx, nil)
	check(err)
	receipt := msgs[0].Receipt().String() // to be kept anywhere
	check(msgs[0].Nack(ctx, 0, nil))
	_, err = q.TryReceive(ctx, nil)
	check(err)

	r, err := queue.ParseReceipt(receipt)
	check(err)
	err = q.Complete(ctx, r, nil)
	fmt.Println(r, errors.Is(err, queue.ErrLeaseOver))
	// Output: 1.1 true
}

// After MaxReceive times a message goes to its dead-letter name.
func ExampleOptions_deadLetter() {
	ctx := context.Background()
	_, q := open(ctx, &queue.Options{MaxReceive: 2})
	defer q.Close()
	_, err := q.Enqueue(ctx, queue.Send{Name: "job", Body: "impossible"})
	check(err)
	for range 2 {
		msgs, err := q.TryReceive(ctx, nil)
		check(err)
		check(msgs[0].Nack(ctx, 0, errors.New("the paper is out")))
	}
	dead, err := q.TryReceive(ctx, &queue.ReceiveOptions{Names: []string{"job.dlq"}})
	check(err)
	fmt.Printf("%s: %s, %d attempts\n", dead[0].Name, dead[0].Failure.Text, len(dead[0].Failure.Attempts))
	// Output: job.dlq: the paper is out, 2 attempts
}

// A key makes sending again harmless.
func ExampleSend_key() {
	ctx := context.Background()
	_, q := open(ctx, nil)
	defer q.Close()
	for range 2 {
		id, err := q.Enqueue(ctx, queue.Send{Name: "order", Body: 7, Key: "order 7"})
		check(err)
		fmt.Println(id, q.Len())
	}
	// Output:
	// 1 1
	// 1 1
}

// What is staged lands with the batch, or not at all.
func ExampleQueue_In() {
	ctx := context.Background()
	actor, q := open(ctx, nil)
	defer q.Close()
	var b batch.Batch
	id, err := q.In(&b).Enqueue(queue.Send{Name: "job"})
	check(err)
	b.Put(actorstore.UserKey([]byte("last job")), []byte(id.String()))
	fmt.Println(id, q.Len())
	check(actor.Commit(ctx, &b))
	fmt.Println(id, q.Len())
	// Output:
	// 1 0
	// 1 1
}

// Anybody may look at the queue of any actor.
func ExampleList() {
	ctx := context.Background()
	actor, q := open(ctx, nil)
	defer q.Close()
	_, err := q.EnqueueAll(ctx, []queue.Send{{Name: "a"}, {Name: "b", Delay: time.Hour}})
	check(err)
	snap, err := actor.Snapshot(ctx)
	check(err)
	defer snap.Close()
	for m, err := range queue.List(ctx, snap, time.Now(), nil) {
		check(err)
		fmt.Println(m.ID, m.Name, m.State)
	}
	// Output:
	// 1 a ready
	// 2 b delayed
}

// Several messages about one document are one, and what is urgent comes first; a worker takes many at once.
func ExampleDebounce() {
	ctx := context.Background()
	_, q := open(ctx, nil)
	defer q.Close()

	save := &queue.Debounce{Key: "document 7", Max: time.Minute}
	_, err := q.EnqueueAll(ctx, []queue.Send{
		{Name: "save", Body: "draft", Debounce: save},
		{Name: "mail", Body: "ann"},
		{Name: "save", Body: "final", Debounce: save},
		{Name: "mail", Body: "bob", Priority: 10},
	})
	check(err)

	msgs, err := q.Receive(ctx, &queue.ReceiveOptions{Count: 3, Linger: time.Second, Apart: true})
	check(err)
	for _, m := range msgs {
		var body string
		check(m.Decode(&body))
		fmt.Println(m.ID, m.Name, body)
		check(m.Complete(ctx, nil))
	}
	// Output:
	// 3 mail bob
	// 1 save final
	// 2 mail ann
}
