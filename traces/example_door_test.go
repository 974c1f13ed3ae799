package traces_test

import (
	"context"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
)

// An actor with traces records each transaction as a span, which lands with it.
func Example() {
	ctx := context.Background()
	store, err := greenroom.New(ctx, memkv.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	room, err := store.Actor(ctx, "lobby", &greenroom.ActorOptions{Traces: &greenroom.TracesOptions{}})
	if err != nil {
		log.Fatal(err)
	}
	defer room.Close()

	err = room.Update(ctx, func(tx *greenroom.Tx) error {
		tx.Span().Event("guest arrives", traces.String("name", "ada"))
		return tx.Put([]byte("newest"), []byte("ada"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = room.View(ctx, func(v *greenroom.View) error {
		res, err := v.Spans(traces.Query{})
		if err != nil {
			return err
		}
		for _, s := range res.Spans {
			fmt.Println(s.Name, s.Events[0].Name)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: actor.update guest arrives
}
