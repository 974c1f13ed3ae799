package conn_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A connection, and the row that says that it is here, come and go together.
func Example() {
	ctx := context.Background()
	store, err := greenroom.New(ctx, memkv.New(), nil)
	check(err)
	defer store.Close()
	room, err := store.Actor(ctx, "lobby", nil)
	check(err)
	defer room.Close()
	_, err = room.SQL().ExecContext(ctx, "create table present(path text)")
	check(err)

	for _, failure := range []error{errors.New("the room is full"), nil} {
		err := room.Update(ctx, func(tx *greenroom.Tx) error {
			conns, err := tx.Connections()
			if err != nil {
				return err
			}
			c, err := conns.Create(lobby)
			if err != nil {
				return err
			}
			if _, err := tx.Exec("insert into present values (?)", c.Path()); err != nil {
				return err
			}
			return failure
		})
		set, setErr := room.Connections(ctx)
		check(setErr)
		fmt.Println(err, len(set.Conns()))
	}
	// Output:
	// the room is full 0
	// <nil> 1
}
