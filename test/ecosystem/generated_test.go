package ecosystem

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/test/ecosystem/rooms"
	"github.com/greenroomdb/greenroom/vfs"
)

// What generated code runs on.
var _, _ rooms.DBTX = (*vfs.DB)(nil), (*vfs.Tx)(nil)

// Generated query code runs on the pool, and in the transaction of an Update: there
// what it writes lands together with the actor's other keys.
func Example_generatedQueries() {
	ctx := context.Background()
	actor, db, closeAll, err := openMemory(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer closeAll()
	if _, err := migrate(ctx, db); err != nil {
		panic(err)
	}

	queries := rooms.New(db)
	for _, body := range []string{"hello", "is anyone there?"} {
		if _, err := queries.AddMessage(ctx, rooms.AddMessageParams{Room: "red", Body: body}); err != nil {
			panic(err)
		}
	}
	err = db.Update(ctx, func(tx *vfs.Tx) error {
		n, err := rooms.New(tx).MarkSeen(ctx, rooms.MarkSeenParams{Room: "red", ID: 1})
		tx.Batch().Put(actorstore.UserKey([]byte("seen")), fmt.Append(nil, n))
		return err
	})
	if err != nil {
		panic(err)
	}
	messages, err := queries.ListMessages(ctx, "red")
	if err != nil {
		panic(err)
	}
	for _, m := range messages {
		fmt.Println(m.ID, m.Body, m.Seen)
	}
	seen, err := actor.User().Get(ctx, []byte("seen"), nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("seen: %s\n", seen)
	// Output:
	// 1 hello 1
	// 2 is anyone there? 0
	// seen: 1
}

var errNo = errors.New("no")

// In a transaction that is rolled back, what generated code wrote is gone, whichever
// of the two transactions it was.
func TestGeneratedQueriesRollBack(t *testing.T) {
	_, db := open(t, nil)
	if _, err := migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	queries := rooms.New(db)
	add := func(q *rooms.Queries) error {
		_, err := q.AddMessage(t.Context(), rooms.AddMessageParams{Room: "red", Body: "  hello "})
		return err
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(add(queries.WithTx(tx)), tx.Rollback()); err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *vfs.Tx) error { return errors.Join(add(rooms.New(tx)), errNo) })
	if !errors.Is(err, errNo) {
		t.Errorf("Update: %v", err)
	}
	if got, err := queries.ListMessages(t.Context(), "red"); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if err := add(queries); err != nil {
		t.Fatal(err)
	}
	if got, err := queries.ListMessages(t.Context(), "red"); err != nil || len(got) != 1 || got[0].Body != "hello" {
		t.Errorf("%v, %v", got, err)
	}
}
