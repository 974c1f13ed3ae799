// Command litestream measures what a backup costs where there are many actors and few of them change: that of package archive, of one
// store, and that of Litestream (github.com/benbjohnson/litestream) as a library, of a SQLite file for each actor.
//
//	go run . [-actors 100,1000] [-sides greenroom,litestream] [-pairs 3] [-seconds 15] [-dir DIR]
//
// A row is inserted each second, into the database of one actor after another, which is opened for it and closed again. Each
// measurement is a process of its own, which does so for some seconds with the backup, or without it. These are run in pairs, one
// after the other, of which now one is first and now the other. What is printed is the median of the pairs: the process with the backup,
// and the processor time of the pair's difference.
package main

// Files, from the top down:
//
//	main.go side.go process.go

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "litestream:", err)
		os.Exit(1)
	}
}

// A plan says what is measured.
type plan struct {
	actors  []int
	sides   []string
	pairs   int
	seconds int
	dir     string
	one     string // the measurement of this process, as JSON; empty in the process that asks for them
}

func parse(args []string) (plan, error) {
	f := flag.NewFlagSet("litestream", flag.ContinueOnError)
	p := plan{}
	actors := f.String("actors", "100,1000", "how many `actors` there are, with commas between")
	sides := f.String("sides", "greenroom,litestream", "what is measured, with commas between")
	f.IntVar(&p.pairs, "pairs", 3, "how many `pairs` of processes, with the backup and without")
	f.IntVar(&p.seconds, "seconds", 15, "for how many `seconds` each inserts rows")
	f.StringVar(&p.dir, "dir", "", "measure on the disk of this `directory`; the system's temporary one if empty")
	f.StringVar(&p.one, "one", "", "one measurement, as `JSON`: what the program calls itself with")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	for text := range strings.SplitSeq(*actors, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return p, fmt.Errorf("-actors %q: want numbers above 0", *actors)
		}
		p.actors = append(p.actors, n)
	}
	p.sides = strings.Split(*sides, ",")
	for _, name := range p.sides {
		if sideOf(name) == nil {
			return p, fmt.Errorf("-sides %q: no side is called %q", *sides, name)
		}
	}
	if f.NArg() > 0 || p.pairs < 1 || p.seconds < 1 {
		return p, errors.New("want no arguments, and at least one pair and one second")
	}
	return p, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	p, err := parse(args)
	if err != nil {
		return err
	}
	if p.one != "" {
		var m measurement
		if err := json.Unmarshal([]byte(p.one), &m); err != nil {
			return err
		}
		if err := m.run(ctx); err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(&m)
	}
	p.dir, err = os.MkdirTemp(p.dir, "litestream-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	to := bufio.NewWriter(out)
	fmt.Fprintln(to, "| backup | actors | processor, % of a core | without | memory | without | threads | without | files | without | goroutines | without | start | lag p50 | most |")
	fmt.Fprintln(to, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, n := range p.actors {
		for _, name := range p.sides {
			row, err := p.measure(ctx, name, n)
			if err != nil {
				return fmt.Errorf("%s with %d actors: %w", name, n, err)
			}
			fmt.Fprintln(to, row)
			if err := to.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure measures a side, and returns a row of the table.
func (p plan) measure(ctx context.Context, name string, actors int) (string, error) {
	dir := filepath.Join(p.dir, fmt.Sprint(name, "-", actors))
	var with, without []measurement
	first := measurement{Side: name, Actors: actors, Seconds: 1, Dir: dir} // it makes the actors, and isn't counted
	if err := first.apart(ctx); err != nil {
		return "", err
	}
	for i := range 2 * p.pairs {
		m := measurement{Side: name, Actors: actors, Seconds: p.seconds, Dir: dir, Backup: i%4 == 1 || i%4 == 2}
		if err := m.apart(ctx); err != nil {
			return "", err
		}
		if m.Backup {
			with = append(with, m)
		} else {
			without = append(without, m)
		}
	}
	least, most, cpu := pairwise(with, without)
	row := fmt.Sprintf("| %s | %d | %.2f (%.2f–%.2f) | %.2f |", name, actors, cpu, least, most, middle(without, func(m measurement) float64 { return m.CPU }))
	for _, of := range []func(measurement) float64{
		func(m measurement) float64 { return m.Memory }, func(m measurement) float64 { return float64(m.Threads) },
		func(m measurement) float64 { return float64(m.Files) }, func(m measurement) float64 { return float64(m.Goroutines) },
	} {
		row += fmt.Sprintf(" %.0f | %.0f |", middle(with, of), middle(without, of))
	}
	lag := func(at float64) string {
		var all []time.Duration
		for _, m := range with {
			all = append(all, m.Lags...)
		}
		slices.Sort(all)
		return all[int(at*float64(len(all)-1))].Round(10 * time.Millisecond).String()
	}
	start := time.Duration(middle(with, func(m measurement) float64 { return float64(m.Start) }))
	return row + fmt.Sprintf(" %v | %s | %s |", start.Round(10*time.Millisecond), lag(0.5), lag(1)), os.RemoveAll(dir)
}

// pairwise returns the least, the largest and the median difference of the processor time of pairs.
func pairwise(with, without []measurement) (least, most, mid float64) {
	var each []float64
	for i := range with {
		each = append(each, with[i].CPU-without[i].CPU)
	}
	slices.Sort(each)
	return each[0], each[len(each)-1], median(each)
}

// middle is the median of what measurements have.
func middle(all []measurement, of func(measurement) float64) float64 {
	var each []float64
	for _, m := range all {
		each = append(each, of(m))
	}
	slices.Sort(each)
	return median(each)
}

// median returns the median of what is sorted.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// apart runs the measurement in a process of its own.
func (m *measurement) apart(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	asked, err := json.Marshal(m)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-one", string(asked))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %.2000s", err, said.String())
	}
	return json.Unmarshal(out, m)
}
