package host_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// run opens a host in memory with one type.
func run(kind *host.Type, fn func(ctx context.Context, h *host.Host) error) {
	ctx, engine := context.Background(), memkv.New()
	h, err := host.Open(ctx, engine, []*host.Type{kind}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := fn(ctx, h); err != nil {
		log.Fatal(err)
	}
	if err := h.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		log.Fatal(err)
	}
}

// A counter keeps its number in its state.
func Example() {
	add := host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
		err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
		return total, err
	})
	counter := &host.Type{Name: "counter", Actions: []host.AnyAction{add}}
	run(counter, func(ctx context.Context, h *host.Host) error {
		for n := range 3 {
			total, err := add.Call(ctx, h, "lobby", n)
			if err != nil {
				return err
			}
			fmt.Println(total)
		}
		return nil
	})
	// Output:
	// 0
	// 1
	// 3
}

// An action that takes and returns host.Raw leaves it to others to know what the values
// are, and Host.Do calls an action whose name comes from elsewhere.
func ExampleHost_Do() {
	echo := host.NewAction("echo", func(_ *host.Context, v host.Raw) (host.Raw, error) { return v, nil })
	run(&host.Type{Name: "wall", Actions: []host.AnyAction{echo}}, func(ctx context.Context, h *host.Host) error {
		args, err := host.Encode([]string{"hello", "there"})
		if err != nil {
			return err
		}
		call := &host.Call{Actor: host.Address{Type: "wall", Key: "north"}, Action: "echo", Args: args}
		result, err := h.Do(ctx, call)
		if err != nil {
			return err
		}
		var words []string
		err = result.Decode(&words)
		fmt.Println(words)
		return err
	})
	// Output: [hello there]
}

// An account keeps a book in SQL. What a turn writes lands whole, or not at all.
func ExampleContext() {
	book := host.NewAction("book", func(c *host.Context, amount int) (balance int, err error) {
		if _, err := c.Exec("insert into book values(?)", amount); err != nil {
			return 0, err
		}
		if err := c.QueryRow("select sum(amount) from book").Scan(&balance); err != nil {
			return 0, err
		}
		if balance < 0 {
			return 0, &host.Error{Code: "overdrawn", Message: "There isn't so much."}
		}
		return balance, nil
	})
	account := &host.Type{
		Name: "account",
		Create: func(c *host.Context) error {
			_, err := c.Exec("create table book(amount int)")
			return err
		},
		Actions: []host.AnyAction{book},
	}
	run(account, func(ctx context.Context, h *host.Host) error {
		for _, amount := range []int{100, -500, -30} {
			balance, err := book.Call(ctx, h, "mine", amount)
			if err != nil {
				fmt.Println(host.Code(err), host.Message(err))
				continue
			}
			fmt.Println(balance)
		}
		return nil
	})
	// Output:
	// 100
	// overdrawn There isn't so much.
	// 70
}

// printer is a transport that prints. A real one has a network behind it.
type printer struct{ name string }

func (p printer) Send(e host.Event) {
	var text string
	if err := e.Body.Decode(&text); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s hears: %s\n", p.name, text)
}

func (p printer) Close(reason string) { fmt.Printf("%s is out: %s\n", p.name, reason) }

// Clients hear what is broadcast when it is durable.
func ExampleHost_Join() {
	say := host.NewCommand("say", func(c *host.Context, text string) error { return c.Broadcast("said", text) })
	room := &host.Type{
		Name:    "room",
		Connect: func(_ *host.Context, n *host.Conn) error { return n.Subscribe("said") },
		Actions: []host.AnyAction{say},
	}
	run(room, func(ctx context.Context, h *host.Host) error {
		lobby := host.Address{Type: "room", Key: "lobby"}
		ann, err := h.Join(ctx, &host.Join{Actor: lobby, Transport: printer{"ann"}, Hibernate: true})
		if err != nil {
			return err
		}
		if err := say.Call(ctx, h, "lobby", "hello"); err != nil {
			return err
		}
		return h.Leave(ctx, lobby, ann.ID, "good bye")
	})
	// Output:
	// ann hears: hello
	// ann is out: good bye
}

// What is scheduled is done by the commit of the turn that it causes: an action of the
// actor, or what Type.Alarm makes of it.
func ExampleContext_Schedule() {
	done := make(chan bool)
	ring := host.NewCommand("ring", func(c *host.Context, of string) error {
		_, err := c.After(time.Millisecond, "all quiet")
		c.AfterCommit(func() { fmt.Println("ring:", of) })
		return err
	})
	remind := host.NewAction("remind", func(c *host.Context, of string) (id string, err error) {
		return ring.After(c, time.Millisecond, of)
	})
	kind := &host.Type{
		Name:    "reminder",
		Actions: []host.AnyAction{remind, ring},
		Alarm: func(c *host.Context, e persist.Event) error {
			c.AfterCommit(func() { fmt.Println(e.Action); close(done) })
			return nil
		},
	}
	run(kind, func(ctx context.Context, h *host.Host) error {
		_, err := remind.Call(ctx, h, "mine", "tea")
		<-done
		return err
	})
	// Output:
	// ring: tea
	// all quiet
}

// A message is completed by the commit of the turn that works on it.
func ExampleHost_Send() {
	done := make(chan bool)
	kind := &host.Type{
		Name: "worker",
		Message: func(c *host.Context, m *greenroom.Message) error {
			var text string
			if err := m.Decode(&text); err != nil {
				return err
			}
			c.AfterCommit(func() { fmt.Println(m.Name, text); close(done) })
			return greenroom.SetState(c, text)
		},
	}
	run(kind, func(ctx context.Context, h *host.Host) error {
		_, err := h.Send(ctx, host.Address{Type: "worker", Key: "1"}, queue.Send{Name: "work", Body: "wash up"})
		<-done
		return err
	})
	// Output: work wash up
}

// A workflow runs beside the turns of its actor, and changes it by steps that are turns.
func ExampleNewWorkflow() {
	done := make(chan bool)
	place := host.NewCommand("place", func(c *host.Context, item string) error { return c.StartWorkflow(item) })
	kind := &host.Type{
		Name:    "order",
		Actions: []host.AnyAction{place},
		Workflow: host.NewWorkflow(func(c *workflow.Context, item string) (string, error) {
			return host.StepTurn(c, "ship", func(c *host.Context) (string, error) {
				c.AfterCommit(func() { fmt.Println("shipped", item); close(done) })
				return item, greenroom.SetState(c, "shipped")
			})
		}, nil),
	}
	run(kind, func(ctx context.Context, h *host.Host) error {
		err := place.Call(ctx, h, "7", "tea")
		<-done
		return err
	})
	// Output: shipped tea
}

// A payment changes two accounts by one commit, or neither.
func ExampleNewJointAction() {
	type payment struct {
		To     string
		Amount int
	}
	book := func(c *host.Context, amount int) (balance int, err error) {
		err = greenroom.Mutate(c, func(b *int) error {
			if *b += amount; *b < 0 {
				return &host.Error{Code: "overdrawn", Message: "There isn't so much."}
			}
			balance = *b
			return nil
		})
		return balance, err
	}
	pay := host.NewJointAction("pay",
		func(_ host.Address, p payment) ([]host.Address, error) {
			return []host.Address{{Type: "account", Key: p.To}}, nil
		},
		func(c *host.Context, others []*host.Context, p payment) (left int, err error) {
			if _, err := book(others[0], p.Amount); err != nil {
				return 0, err
			}
			return book(c, -p.Amount)
		})
	open := host.NewAction("book", book)
	account := &host.Type{Name: "account", Actions: []host.AnyAction{open, pay}}
	run(account, func(ctx context.Context, h *host.Host) error {
		if _, err := open.Call(ctx, h, "ann", 100); err != nil {
			return err
		}
		for _, amount := range []int{80, 30} {
			left, err := pay.Call(ctx, h, "ann", payment{"bob", amount})
			if err != nil {
				fmt.Println(host.Code(err))
				continue
			}
			fmt.Println("ann has", left)
		}
		bob, err := open.Call(ctx, h, "bob", 0)
		fmt.Println("bob has", bob)
		return err
	})
	// Output:
	// ann has 20
	// overdrawn
	// bob has 80
}
