package workflow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/workflow"
)

// An order is paid outside, and written down in the actor's own database.
func Example() {
	store, err := greenroom.New(ctx, memkv.New(), nil)
	check(err)
	defer store.Close()
	shop, err := store.Actor(ctx, "shop", nil)
	check(err)
	defer shop.Close()
	_, err = shop.SQL().ExecContext(ctx, "create table orders(item text, receipt text)")
	check(err)

	order := func(c *workflow.Context, item string) (string, error) {
		receipt, err := workflow.Step(c, "charge", func(ctx context.Context) (string, error) {
			fmt.Println("charging for", item)
			return "receipt 7", nil
		})
		if err != nil {
			return "", err
		}
		c.Sleep("let it rest", 10*time.Millisecond)
		return greenroom.StepTx(c, "write down", func(tx *greenroom.Tx) (string, error) {
			_, err := tx.Exec("insert into orders values (?, ?)", item, receipt)
			return receipt, err
		})
	}
	fmt.Println(greenroom.RunWorkflow(ctx, shop, order, "tea"))
	// Output:
	// charging for tea
	// receipt 7 <nil>
}
