// Command order is a shop whose orders are workflows: payment, retries, a timeout,
// compensation, and the approval of a human being by message. It may be killed at any
// moment; started again, it goes on with every order where that was, charges nobody twice,
// and forgets nobody's answer.
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

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
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
	store *actorstore.Store
	bank  *bank

	mu     sync.Mutex
	orders map[string]*order
	runs   sync.WaitGroup
}

// An order is an actor with a queue and a workflow.
type order struct {
	actor *actorstore.Actor
	queue *queue.Queue
	run   *workflow.Runner[Order, string]
}

// serve opens the shop in a folder, goes on with what is there, and does what the lines of
// in say, until it ends or ctx is over.
func serve(ctx context.Context, folder string, in io.Reader) (err error) {
	engine, err := pebblekv.Open(filepath.Join(folder, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	store, err := actorstore.Open(ctx, engine, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s := &shop{store: store, bank: &bank{file: filepath.Join(folder, "ledger.txt")}, orders: map[string]*order{}}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.resume(ctx); err != nil {
		return err
	}
	return s.obey(ctx, in)
}

// resume goes on with the orders that are in the store.
func (s *shop) resume(ctx context.Context) error {
	var names []string
	for a, err := range s.store.Actors(ctx, &actorstore.ActorsOptions{Prefix: "order/"}) {
		if err != nil {
			return err
		}
		names = append(names, strings.TrimPrefix(a.Name, "order/"))
	}
	for _, name := range names {
		o, err := s.open(ctx, name)
		if err != nil {
			return err
		}
		s.start(ctx, name, o)
	}
	return nil
}

// open opens the actor of an order.
func (s *shop) open(ctx context.Context, name string) (o *order, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.orders[name]; o != nil {
		return o, nil
	}
	o = &order{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	if o.actor, err = s.store.Named(ctx, "order/"+name, nil); err != nil {
		return nil, err
	}
	if o.queue, err = queue.Open(ctx, o.actor, nil); err != nil {
		return nil, err
	}
	o.run, err = workflow.Open(ctx, o.actor, s.bank.order, &workflow.Options{Queue: o.queue, Errors: sentinels})
	if err != nil {
		return nil, err
	}
	s.orders[name] = o
	return o, nil
}

// start has an order be worked on.
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
		// An order that was placed before stays what it is.
		if err := o.run.Start(ctx, Order{words[1], words[2], cents}); err != nil {
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
		_, err = o.queue.Enqueue(ctx, queue.Send{Name: words[0], Key: "answer"})
		if err == nil {
			fmt.Println("answered", words[1])
		}
		return err
	}
	return fmt.Errorf("what is %q?", strings.Join(words, " "))
}

// close stops all orders where they are.
func (s *shop) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		err = errors.Join(err, o.close())
	}
	s.runs.Wait()
	return err
}

func (o *order) close() (err error) {
	if o.run != nil {
		err = o.run.Close()
	}
	if o.queue != nil {
		err = errors.Join(err, o.queue.Close())
	}
	if o.actor != nil {
		err = errors.Join(err, o.actor.Close())
	}
	return err
}
