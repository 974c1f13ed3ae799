//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

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
// and in a key besides. Of each increment it sends a letter. Each action there is for one actor, and for several in one turn.
func counter(process string) *host.Type {
	get := func(c *host.Context, _ int) (answer, error) { return tails(c, process) }
	add := func(c *host.Context, id int) (answer, error) {
		if id != 0 {
			if err := add(c, id); err != nil {
				return answer{}, err
			}
		}
		return tails(c, process)
	}
	list := func(c *host.Context, _ int) ([]int, error) { return list(c) }
	return &host.Type{
		Name: "counter",
		Actions: []host.AnyAction{
			host.NewAction("add", add), host.NewAction("get", get), host.NewAction("list", list),
			together("addTogether", add), together("getTogether", get), together("listTogether", list),
		},
		Create: createList,
	}
}

// A several is the argument of an action of several actors.
type several struct {
	With []int // the others
	ID   int   // 0 for none
	Look bool  // the called actor gets no ID
}

// together returns the action that does in each of several actors what fn does in one, and answers with what it has returned in each.
func together[T any](name string, fn func(c *host.Context, id int) (T, error)) host.AnyAction {
	with := func(_ host.Address, s several) (others []host.Address, err error) {
		for _, i := range s.With {
			others = append(others, host.Address{Type: "counter", Key: strconv.Itoa(i)})
		}
		return others, nil
	}
	return host.NewJointAction(name, with, func(c *host.Context, others []*host.Context, s several) (answers []T, err error) {
		for i, c := range slices.Concat([]*host.Context{c}, others) {
			id := s.ID
			if s.Look && i == 0 {
				id = 0
			}
			a, err := fn(c, id)
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
		return answers, nil
	})
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
