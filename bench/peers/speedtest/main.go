// Command speedtest runs SQLite's speedtest1, one of its developers' own measures of speed,
// in a database of one kind or another: it is both sides of the line sqlite/speedtest1. It
// measures nothing itself.
//
//	speedtest PLACE SIZE DIR [URL]
//
// PLACE is greenroom-pebble, greenroom-mem, greenroom-postgres (at URL), file-delete-full or
// memdb, SIZE speedtest1's measure of work in percent, DIR a folder for what is on disk. The
// program reads numbers from its standard input, one a line. For each it runs speedtest1 as
// often, in a new database each time, and prints the number, and behind a space, as JSON, what
// was asked of the engine. It ends with its input.
//
// See https://sqlite.org/src/file/test/speedtest1.c.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
)

func main() {
	if err := serve(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "speedtest:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) < 3 || len(args) > 4 {
		return fmt.Errorf("%d arguments: want PLACE SIZE DIR [URL]", len(args))
	}
	p, err := open(ctx, append(args, ""))
	if err != nil {
		return err
	}
	defer func() { err = p.close(err) }()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		if err := answer(ctx, p, args[1], n, out); err != nil {
			return err
		}
	}
	return lines.Err()
}

// answer does n runs and says so.
func answer(ctx context.Context, p *place, size string, n int, out io.Writer) error {
	p.reset()
	for range n {
		if err := p.run(ctx, size); err != nil {
			return err
		}
	}
	counts, err := json.Marshal(p.asked())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d %s\n", n, counts)
	return err
}
