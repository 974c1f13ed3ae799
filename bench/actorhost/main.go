// Command actorhost serves actors of one type, whose action insert inserts a row and answers with the number of rows: what bench has beside the actor hosts of
// others, in a process of its own as those are. It has the flags of greenroom host.
package main

import (
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/serve"
)

func main() {
	serve.Main(&host.Type{
		Name: "bench",
		Create: func(c *host.Context) error {
			_, err := c.Exec("create table t(id integer primary key, data text not null)")
			return err
		},
		Actions: []host.AnyAction{host.NewAction("insert", func(c *host.Context, data string) (n int64, err error) {
			if _, err := c.Exec("insert into t(data) values(?)", data); err != nil {
				return 0, err
			}
			err = c.QueryRow("select max(id) from t").Scan(&n)
			return n, err
		})},
	})
}
