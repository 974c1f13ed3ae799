//go:build unix

package chaos

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/queue"
)

// A tail is how an actor's list of increments ends: how many there are, and the id of the
// last one, 0 without any.
type tail struct{ N, ID int }

// An answer is what an actor says: the tail of its list, as each of three places has it
// that change in one turn.
type answer struct {
	SQL, State, Key tail
	Process         string // the host's
}

// counter is an actor with a list of increments: all of it in SQL, and its tail in its state
// and in a key besides. Of each increment it sends a letter.
func counter(process string) *host.Type {
	return &host.Type{
		Name: "counter",
		Actions: []host.AnyAction{
			host.NewAction("add", func(c *host.Context, id int) (answer, error) {
				if err := add(c, id); err != nil {
					return answer{}, err
				}
				return tails(c, process)
			}),
			host.NewAction("get", func(c *host.Context, _ struct{}) (answer, error) { return tails(c, process) }),
			host.NewAction("list", func(c *host.Context, _ struct{}) ([]int, error) {
				return list(c)
			}),
		},
		Create: createList,
	}
}

// add appends an increment in every place.
func add(c *host.Context, id int) error {
	tx, err := c.SQL()
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(c, "insert into list(id) values(?)", id); err != nil {
		return err
	}
	err = greenroom.Mutate(c, func(t *tail) error { *t = tail{t.N + 1, id}; return nil })
	if err != nil {
		return err
	}
	k, err := keyTail(c)
	if err != nil {
		return err
	}
	if err := c.Put(tailKey, fmt.Appendf(nil, "%d %d", k.N+1, id)); err != nil {
		return err
	}
	return c.Send(host.Address{Type: "ledger", Key: c.Address().Key}, queue.Send{Name: "added", Body: id})
}

// createList makes the list of a new actor. Its rows are never removed, so they are numbered
// without gaps.
func createList(c *host.Context) error {
	tx, err := c.SQL()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(c, "create table list(n integer primary key, id integer)")
	return err
}

var tailKey = []byte("tail")

func keyTail(c *host.Context) (t tail, err error) {
	b, err := c.Get(tailKey)
	if errors.Is(err, actorstore.ErrNotFound) {
		return tail{}, nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(b), &t.N, &t.ID)
	}
	return t, err
}

// tails returns the tail in every place.
func tails(c *host.Context, process string) (a answer, err error) {
	a.Process = process
	if a.State, err = greenroom.State[tail](c); err != nil {
		return a, err
	}
	if a.Key, err = keyTail(c); err != nil {
		return a, err
	}
	tx, err := c.SQL()
	if err != nil {
		return a, err
	}
	err = tx.QueryRowContext(c, "select count(*), coalesce((select id from list order by n desc limit 1), 0) from list").Scan(&a.SQL.N, &a.SQL.ID)
	return a, err
}

// list returns the ids of a list, in order.
func list(c *host.Context) (ids []int, err error) {
	tx, err := c.SQL()
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(c, "select id from list order by n")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// ledger is an actor that keeps the letters of one counter, in the order in which they came.
func ledger() *host.Type {
	return &host.Type{
		Name: "ledger",
		Actions: []host.AnyAction{
			host.NewAction("list", func(c *host.Context, _ struct{}) ([]int, error) { return list(c) }),
		},
		Create: createList,
		Message: func(c *host.Context, m *greenroom.Message) error {
			var id int
			if err := m.Decode(&id); err != nil {
				return err
			}
			tx, err := c.SQL()
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(c, "insert into list(id) values(?)", id)
			return err
		},
		Queue: greenroom.QueueOptions{MaxMessages: 1000},
	}
}
