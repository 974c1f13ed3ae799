// Command bench measures Greenroom against its peers and prints how many times
// faster it is, line by line.
//
//	go run ./bench [-run REGEXP] [-quick] [-json] [-html FILE] [-compare OLD.json] [-peers]
//		[-engine pebble|mem|postgres|postgres://…] [-distance 5ms] [-actors N]
//
// A line compares a subject with a peer on the same work. Both run in turns in
// one process, round after round, so that a noisy machine bothers both; what is
// printed is the median of the rounds' ratios, subject's throughput over the peer's, with
// its 95 % interval. Absolute figures hold for the
// machine and the minute. Besides, every line says how often the subject called its
// engine, which is what a network would multiply, and a second table what an operation
// takes: processor time, which is steadier than the throughput of a busy machine, and
// within what time half and 99 % of the operations were done.
//
// It is not a load test: one goroutine works at a time, but where many actors do at once on
// both sides, or readers beside a writer. Every side has a store of its own in a
// temporary folder, or in a schema of its own on a PostgreSQL server, which is started for
// the run unless an address names one. All of it is removed at the end, and after an
// interrupt.
package main

// Files, from the top down:
//
//	main.go page.go compare.go raw.go report.go line.go machine.go crowd.go host.go opens.go items.go docs.go backup.go
//	rivetkit.go actorhosts.go libraries.go peer.go readers.go door.go durable.go product.go measure.go sqlite.go cputime_unix.go cputime_other.go rows.go traces.go stand.go processes.go
//	server.go engine.go latency.go stats.go

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // parse has said why
	}
	if err := o.measureAll(ctx, os.Stdout, os.Stderr); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	run           *regexp.Regexp
	quick, json   bool
	engine        string
	url           string // of a PostgreSQL server that is there
	dir           string
	compare, html string
	peers         bool
	distance      time.Duration
	cpuProfile    string
	// plan and sizes follow from the flags; tests set them.
	plan  plan
	sizes sizes
}

// parse reads the command line. What is wrong with it is printed to w.
func parse(args []string, w io.Writer) (options, error) {
	o := options{run: regexp.MustCompile(""), plan: fullPlan, sizes: fullSizes}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	f.Func("run", "measure only the lines whose workload and peer match this `regexp`, as in 'insert-1 raw'", func(text string) (err error) {
		o.run, err = regexp.Compile(text)
		return err
	})
	f.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds: all lines within two minutes")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line instead of a table")
	engine := f.String("engine", enginePebble, "the subject's `engine`: pebble, mem, postgres for a PostgreSQL server that is started for the run, or postgres://USER@HOST/DATABASE for one that is there")
	f.StringVar(&o.dir, "dir", "", "measure on the disk of this `directory`; the system's temporary one if empty")
	f.BoolVar(&o.peers, "peers", false, "measure other products and other SQLite drivers for Go too; they are built or installed first, which takes minutes")
	many := f.Int("actors", 0, "make so `many` actors for sqlite/open-many; 0 is 10,000, and 1,000 with -quick")
	f.DurationVar(&o.distance, "distance", 0, "measure the engine in memory where every call of it takes this `trip`, and let one actor work at a time; speedtest1 stays near")
	f.StringVar(&o.compare, "compare", "", "say what changed since the run whose -json output is in this `file`")
	f.StringVar(&o.html, "html", "", "write a page with a chart to this `file`")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this `file`; its samples are labelled with the side of the line")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.plan, o.sizes = quickPlan, quickSizes
	}
	o.sizes.many = cmp.Or(*many, o.sizes.many)
	if o.distance > 0 {
		o.sizes.actors, o.sizes.many = 1, *many // none shares trips with another
		*engine = engineMem
	}
	var err error
	o.engine, o.url, err = parseEngine(*engine) // not a flag's own function: flag would print a password
	if f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", storeurl.Redact(f.Arg(0)))
	}
	if *many < 0 || o.distance < 0 {
		err = errors.New("-actors and -distance are not less than 0")
	}
	if err != nil {
		fmt.Fprintln(w, "bench:", err)
	}
	return o, err
}

// measureAll measures what was asked for. Results go to out, what they were measured on to
// info when out is for programs.
func (o options) measureAll(ctx context.Context, out, info io.Writer) error {
	return begin(ctx).visit(func(s *stand) {
		// What can't be read or written is known before anything is measured.
		var before []record
		if o.compare != "" {
			before = must(readRecords(o.compare))
		}
		if o.html != "" {
			owned(s, must(os.OpenFile(o.html, os.O_WRONLY|os.O_CREATE, 0o644)))
		}
		if o.cpuProfile != "" {
			check(pprof.StartCPUProfile(owned(s, must(os.Create(o.cpuProfile)))))
			s.end(func() error { pprof.StopCPUProfile(); return nil })
		}
		s.dir = must(os.MkdirTemp(o.dir, "greenroom-bench-"))
		s.end(func() error { return os.RemoveAll(s.dir) })
		s.bin, s.on, s.sizes, s.trip = filepath.Join(s.dir, "bin"), o.engine, o.sizes, o.distance
		if o.engine == enginePostgres {
			// Not below s.dir: only the user of this process may enter that.
			s.server = must(openServer(o.dir, o.url))
			s.end(s.server.stop)
		}
		if !o.json {
			info = out
		}
		var on facts
		check(s.visit(func(*stand) { on = inspect(s) }))
		for _, f := range on {
			must(fmt.Fprintf(info, "%-9s %s\n", f[0], f[1]))
		}
		changes := paired(before, o.measureLines(s, on.environment(o.quick), out, info))
		if o.compare != "" {
			check(writeChanges(info, changes))
		}
		if o.html != "" {
			writePage(o.html, newPage(on, changes))
		}
	})
}

// measureLines measures the selected lines, and returns and prints them. A line with a
// program that can't be had is left out, and info is told why.
func (o options) measureLines(s *stand, environment string, out, info io.Writer) (records []record) {
	var rows, times [][]string
	for _, l := range lines(o.engine, o.peers) {
		if !o.run.MatchString(l.title()) {
			continue
		}
		r, err := s.measure(l, o.plan)
		if errors.Is(err, errBuild) && s.ctx.Err() == nil {
			must(fmt.Fprintf(info, "skipped: %v\n", err))
			continue
		}
		check(err)
		of := r.record()
		of.Environment = environment
		if o.json { // as soon as there is one
			check(json.NewEncoder(out).Encode(of))
		}
		records, rows, times = append(records, of), append(rows, of.row()), append(times, of.times())
	}
	if len(records) == 0 {
		check(fmt.Errorf("-run %q selects nothing that can be measured here", o.run))
	}
	if !o.json {
		check(errors.Join(writeTable(out, columns, rows), writeTable(out, timeColumns, times)))
	}
	return records
}
