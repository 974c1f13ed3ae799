package host

import (
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestTurnCost: a turn with SQL is one commit and one wait for stable storage, and reads nothing of the engine.
func TestTurnCost(t *testing.T) {
	kind := thing(NewAction("insert", func(c *Context, data string) (n int, err error) {
		if _, err := c.Exec("insert into t(data) values(?)", data); err != nil {
			return 0, err
		}
		err = c.QueryRow("select max(id) from t").Scan(&n)
		return n, err
	}))
	kind.Create = func(c *Context) error {
		_, err := c.Exec("create table t(id integer primary key, data text)")
		return err
	}
	r := newRig(t, Options{}, kind)
	insert := func() { r.call(lobby, "insert", "data") }
	insert()
	insert()
	r.engine.Reset()
	insert()
	c := r.engine.Counts()
	c.Ops, c.Bytes = 0, 0
	if want := (faultkv.Counts{Commits: 1, Syncs: 1}); c != want {
		t.Errorf("a turn took %+v, want %+v", c, want)
	}
	if most := 90.0; !testkit.Race {
		if n := testing.AllocsPerRun(100, insert); n > most {
			t.Errorf("a turn allocates %v times, bound %v", n, most)
		}
	}
	r.close()
}
