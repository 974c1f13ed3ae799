package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// newDB returns transactions that are run once, however long the machine takes.
func newDB() (*txn.DB, func()) {
	engine := memkv.New()
	db, err := txn.New(engine, &txn.Options{MaxAge: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	return db, func() { engine.Close() }
}

// A guest books a seat that is free. Of several guests that try at the same time one
// gets it: the others read that it is free, fail to commit, and run again.
func ExampleDB_Update() {
	ctx := context.Background()
	db, closeDB := newDB()
	defer closeDB()

	errTaken := errors.New("taken")
	book := func(seat, who string) error {
		return db.Update(ctx, func(tx *txn.Tx) error {
			_, err := tx.Get(ctx, []byte("seat/"+seat), nil)
			if err == nil {
				return errTaken
			}
			if !errors.Is(err, kv.ErrNotFound) {
				return err
			}
			return tx.Set([]byte("seat/"+seat), []byte(who))
		})
	}
	fmt.Println(book("1", "Ada"))
	fmt.Println(book("1", "Grace"))
	// Output:
	// <nil>
	// taken
}

// All reads of a View are of one state.
func ExampleDB_View() {
	ctx := context.Background()
	db, closeDB := newDB()
	defer closeDB()

	err := db.View(ctx, func(tx *txn.Tx) error {
		if err := tx.Set([]byte("k"), []byte("v")); err != nil {
			fmt.Println(err)
		}
		_, err := tx.Get(ctx, []byte("k"), nil)
		return err
	})
	fmt.Println(err)
	// Output:
	// txn: transaction is read-only
	// kv: key not found
}

// A transaction sees what it has written, in its place among the rest.
func ExampleTx_Scan() {
	ctx := context.Background()
	db, closeDB := newDB()
	defer closeDB()

	err := db.Update(ctx, func(tx *txn.Tx) error {
		for _, k := range []string{"a", "b", "c", "d"} {
			if err := tx.Set([]byte(k), []byte("old")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(ctx, func(tx *txn.Tx) error {
		if err := errors.Join(tx.Clear([]byte("b")), tx.Set([]byte("bb"), []byte("new"))); err != nil {
			return err
		}
		for e, err := range tx.Scan(ctx, kv.Range{End: []byte("d"), Reverse: true}) {
			if err != nil {
				return err
			}
			fmt.Printf("%s=%s\n", e.Key, e.Value)
		}
		last, err := tx.GetKey(ctx, txn.LastLessThan([]byte("c")), nil)
		fmt.Printf("before c: %s\n", last)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// c=old
	// bb=new
	// a=old
	// before c: bb
}

// A counter that everybody adds to without waiting for, or conflicting with, anybody.
func ExampleTx_Atomic() {
	ctx := context.Background()
	db, closeDB := newDB()
	defer closeDB()

	for range 3 {
		err := db.Update(ctx, func(tx *txn.Tx) error {
			return tx.Atomic(txn.MutationAdd, []byte("visits"), []byte{1, 0, 0, 0, 0, 0, 0, 0})
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	err := db.View(ctx, func(tx *txn.Tx) error {
		v, err := tx.Get(ctx, []byte("visits"), nil)
		if err == nil {
			fmt.Println(binary.LittleEndian.Uint64(v))
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 3
}

// Waiting for a change of what a transaction has seen misses none, also none that came
// before the waiting.
func ExampleTx_Watch() {
	ctx := context.Background()
	db, closeDB := newDB()
	defer closeDB()

	var mail *txn.Watch
	err := db.View(ctx, func(tx *txn.Tx) (err error) {
		mail, err = tx.Watch(ctx, []byte("mail"))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Set([]byte("mail"), []byte("hello")) })
		if err != nil {
			log.Fatal(err)
		}
	}()
	if err := mail.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	v, err := db.Engine().Get(ctx, []byte("mail"), nil)
	fmt.Printf("%s %v\n", v, err)
	// Output: hello <nil>
}

// The stamp of a commit in a key makes a log in the order of the commits.
func ExampleTx_SetVersionstampedKey() {
	ctx := context.Background()
	db, closeDB := newDB()
	defer closeDB()

	for _, line := range []string{"first", "second"} {
		err := db.Update(ctx, func(tx *txn.Tx) error {
			key := append([]byte("log/"), make([]byte, len(txn.Stamp{}))...)
			key = binary.LittleEndian.AppendUint32(key, uint32(len("log/")))
			return tx.SetVersionstampedKey(key, []byte(line))
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for e, err := range db.Engine().Scan(ctx, kv.Range{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", e.Value)
	}
	// Output:
	// first
	// second
}
