package batch_test

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
)

// commit is what a store does with a batch, with write in place of an engine.
func commit(b *batch.Batch, l batch.Limits, write func(batch.Sub) error) (err error) {
	defer func() { b.Settle(err) }()
	if err := b.Seal(); err != nil {
		return err
	}
	subs, err := b.Split(l, nil)
	if err != nil {
		return err
	}
	if err := l.CheckSubs(b.Mode, len(subs)); err != nil {
		return err
	}
	for _, sub := range subs {
		if err := write(sub); err != nil {
			return err
		}
	}
	return nil
}

func printSub(sub batch.Sub) error {
	fmt.Printf("%d bytes:", sub.Payload)
	for _, op := range sub.Ops {
		fmt.Printf(" %v %s", op.Kind, op.Key)
	}
	fmt.Println()
	return nil
}

func ExampleBatch() {
	var b batch.Batch
	b.Put([]byte("a"), []byte("1"))
	b.Delete([]byte("b"))
	b.DeleteRange([]byte("c"), []byte("f"))
	b.Final().Put([]byte("size"), []byte("1"))
	b.OnCommit(func() { fmt.Println("committed") })
	if err := commit(&b, batch.Limits{Entries: 2}, printSub); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 7 bytes: put a delete b
	// 11 bytes: delete-range c put size
	// committed
}

func ExampleBatch_Split() {
	var b batch.Batch
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		b.Put([]byte(k), []byte("1"))
	}
	subs, err := b.Split(batch.Limits{Entries: 2}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, sub := range subs {
		if err := printSub(sub); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 8 bytes: put a put b
	// 8 bytes: put c put d
	// 4 bytes: put e
}

// What can't fit is refused before anything is written.
func ExampleLimitError() {
	var b batch.Batch
	b.Put([]byte("small"), []byte("1"))
	b.Put([]byte("large"), make([]byte, 200))
	err := commit(&b, batch.Limits{ValueSize: 100}, printSub)
	fmt.Println(errors.Is(err, batch.ErrValueTooLarge))
	fmt.Println(err)
	// Output:
	// true
	// batch: value too large: key "large": 200 bytes of the value, limit 100
}

func ExampleLimits_CheckSubs() {
	l := batch.Limits{AtomicBatches: 1}
	fmt.Println(l.CheckSubs(batch.Ordered, 2))
	fmt.Println(l.CheckSubs(batch.Atomic, 2))
	// Output:
	// <nil>
	// batch: too large: 2 sub-batches of an atomic batch, limit 1
}

// A Late function writes what depends on everything else in the batch.
func ExampleBatch_Late() {
	var b batch.Batch
	b.Late(func(b *batch.Batch) error {
		b.Put([]byte("count"), fmt.Append(nil, b.Len()))
		return nil
	})
	b.Put([]byte("a"), nil)
	b.Put([]byte("b"), nil)
	if err := b.Seal(); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s\n", b.Ops()[2].Value)
	// Output: 2
}

// What staging reserves is given back if the batch doesn't land.
func ExampleBatch_Settle() {
	nextID := 1
	var b batch.Batch
	id := nextID
	nextID++
	b.OnCommit(func() { fmt.Println("stored", id) })
	b.OnAbort(func(reason error) {
		nextID = id
		fmt.Println("gave back", id, "because of:", reason)
	})
	b.Settle(errors.New("fenced"))
	b.Abort(nil) // too late to matter
	fmt.Println("next", nextID)
	// Output:
	// gave back 1 because of: fenced
	// next 1
}

func ExamplePrior() {
	var b batch.Batch
	b.PutPrior([]byte("page 1"), make([]byte, 4096), batch.Stored(4096))
	b.PutPrior([]byte("page 2"), make([]byte, 4096), batch.Absent)
	b.Put([]byte("page 3"), make([]byte, 4096))
	for _, op := range b.Ops() {
		n, ok := op.Prior.Known()
		fmt.Println(n, ok)
	}
	// Output:
	// 4096 true
	// -1 true
	// 0 false
}

func ExampleDirty() {
	var d batch.Dirty[string]
	d.Mark("a")
	d.Mark("b")

	c := d.Capture()
	d.Mark("a") // changed again while the write is under way
	var b batch.Batch
	b.OnCommit(func() { d.Clear(c) })
	b.Settle(nil)

	fmt.Println(c.Keys(), d.Capture().Keys())
	// Output: [a b] [a]
}
