// Command products does the operations of a library that users may pick instead of Greenroom's queues and workflows, for bench:
//
//	products goqite FILE,SCHEMA CALLERS
//	products river|dbos URL CALLERS
//	products restate INGRESS,ADMIN,SERVICE CALLERS
//
// It reads numbers from its standard input, one a line, does as many operations, by so many callers at once, and answers with the number and how long each
// took, in nanoseconds. It ends with its input.
package main

// Files, from the top down:
//
//	main.go queues.go workflows.go

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// An operation is done by the i-th caller.
type operation func(ctx context.Context, i int) error

// A product opens the place where it stores; callers is how many there will be. Its end closes that.
type product func(ctx context.Context, place string, callers int) (do operation, end func() error, err error)

var products = map[string]product{"goqite": openGoqite, "river": openRiver, "dbos": openDBOS, "restate": openRestate}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "products:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("want the arguments goqite|river|dbos|restate PLACE CALLERS")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 3 || products[args[0]] == nil {
		return errUsage
	}
	callers, err := strconv.Atoi(args[2])
	if err != nil || callers < 1 {
		return errUsage
	}
	do, end, err := products[args[0]](ctx, args[1], callers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		took, err := together(ctx, do, callers, n)
		if err != nil {
			return err
		}
		text, err := json.Marshal(map[string]any{"Took": took})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%d %s\n", n, text); err != nil {
			return err
		}
	}
	return lines.Err()
}

// together lets callers do n operations, and returns how long each took.
func together(ctx context.Context, do operation, callers, n int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	errs := make([]error, callers)
	var next atomic.Int64
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			for at := int(next.Add(1)) - 1; at < n && errs[i] == nil; at = int(next.Add(1)) - 1 {
				began := time.Now()
				errs[i] = do(ctx, i)
				took[at] = time.Since(began)
			}
		})
	}
	done.Wait()
	return took, errors.Join(errs...)
}
