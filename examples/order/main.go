// Command order is a shop whose orders are workflows: payment, retries, a timeout,
// compensation, and the approval of a human being by message. It may be killed at any
// moment; started again, it continues every order where that stopped, charges each
// customer once, and forgets no answer.
//
//	go run ./examples/order FOLDER
//
// Then type commands, one a line:
//
//	place tea-1 tea 500            an order of 5.00
//	place piano-1 piano 90000      a large one, which waits for an approval
//	approve piano-1                or: reject piano-1
//	place dodo-1 dodo 300          cannot be delivered: the money is paid back
//	quit
//
// The bank is the file ledger.txt beside the store. As a bank does, it knows each request by
// a key, and a request that comes again is not done again.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: order FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := serve(ctx, os.Args[1], os.Stdin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "order:", err)
		os.Exit(1)
	}
}

// A shop is a store whose actors are orders.
type shop struct {
	store  *greenroom.Store
	bank   *bank
	orders map[string]*order
	runs   sync.WaitGroup
}

// An order is an actor and its workflow.
type order struct {
	*greenroom.Actor
	run *workflow.Runner[Order, string]
}

// serve opens the shop in a folder, goes on with what is there, and does what the lines of
// in say, until it ends or ctx is over.
func serve(ctx context.Context, folder string, in io.Reader) (err error) {
	store, err := greenroom.Open(ctx, filepath.Join(folder, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s := &shop{store: store, bank: &bank{file: filepath.Join(folder, "ledger.txt")}, orders: map[string]*order{}}
	defer func() { err = errors.Join(err, s.close()) }()
	for a, err := range store.Actors(ctx, &greenroom.ActorsOptions{Prefix: "order/"}) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(a.Name, "order/")
		o, err := s.open(ctx, name)
		if err != nil {
			return err
		}
		s.start(ctx, name, o)
	}
	return s.obey(ctx, in)
}

// open opens the actor of an order.
func (s *shop) open(ctx context.Context, name string) (*order, error) {
	if o := s.orders[name]; o != nil {
		return o, nil
	}
	actor, err := s.store.Actor(ctx, "order/"+name, nil)
	if err != nil {
		return nil, err
	}
	run, err := greenroom.OpenWorkflow(ctx, actor, s.bank.order, &greenroom.WorkflowOptions{Errors: sentinels})
	if err != nil {
		return nil, errors.Join(err, actor.Close())
	}
	s.orders[name] = &order{actor, run}
	return s.orders[name], nil
}

// start starts the work on an order.
func (s *shop) start(ctx context.Context, name string, o *order) {
	s.runs.Go(func() {
		out, err := o.run.Live(ctx)
		switch {
		case err == nil:
			fmt.Println("done", name, out)
		case errors.Is(err, workflow.ErrFailed):
			fmt.Println("done", name, "failed:", err)
		case errors.Is(err, workflow.ErrNotStarted), errors.Is(err, workflow.ErrEvicted), errors.Is(err, workflow.ErrRunning):
		default:
			fmt.Println("stopped", name, err)
		}
	})
}

// obey does what is read.
func (s *shop) obey(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "quit" {
			return nil
		}
		if err := s.do(ctx, words); err != nil {
			fmt.Println("error", err)
		}
	}
	return lines.Err()
}

func (s *shop) do(ctx context.Context, words []string) error {
	switch {
	case words[0] == "place" && len(words) == 4:
		cents, err := strconv.Atoi(words[3])
		if err != nil {
			return err
		}
		o, err := s.open(ctx, words[1])
		if err != nil {
			return err
		}
		// An order that was placed before stays what it is, one that is over too.
		if err := o.run.Start(ctx, Order{words[1], words[2], cents}); err != nil && !errors.Is(err, workflow.ErrOver) {
			return err
		}
		fmt.Println("placed", words[1])
		s.start(ctx, words[1], o)
		return nil
	case (words[0] == "approve" || words[0] == "reject") && len(words) == 2:
		o, err := s.open(ctx, words[1])
		if err != nil {
			return err
		}
		// The key makes one message of an answer that is given twice.
		err = o.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: words[0], Key: "answer"})
			return err
		})
		if err == nil {
			fmt.Println("answered", words[1])
		}
		return err
	}
	return fmt.Errorf("what is %q?", strings.Join(words, " "))
}

// close stops all orders where they are.
func (s *shop) close() (err error) {
	for _, o := range s.orders {
		err = errors.Join(err, o.Close())
	}
	s.runs.Wait()
	return err
}
