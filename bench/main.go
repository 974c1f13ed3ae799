// Command bench measures Greenroom against its peers and prints how many times
// faster it is, line by line.
//
//	go run ./bench [-run REGEXP] [-quick] [-json] [-html FILE] [-compare OLD.json] [-peers]
//		[-engine pebble|mem|postgres|postgres://…]
//	go run ./bench -actors N [-actors-time 10m]
//	go run ./bench -distance 1ms,5ms [-run REGEXP]
//
// A line compares a subject with a peer on the same work. Both run in turns in
// one process, round after round, so that a noisy machine bothers both; what is
// printed is the ratio of their medians, subject's throughput over the peer's, with
// a 95 % bootstrap interval over the rounds. Absolute figures hold for the
// machine and the minute. Besides time, every line says how often the subject
// called its engine, which is what a network would multiply.
//
// It is no load test: one goroutine works at a time, but where many actors do at once on
// both sides, or readers beside a writer. Every side has a store of its own in a
// temporary folder, or in a schema of its own on a PostgreSQL server, which is started for
// the run unless an address names one. All of it is removed at the end, and after an
// interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
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
	if err := o.profiled(ctx, os.Stdout, os.Stderr); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	run                    *regexp.Regexp
	quick, json            bool
	engine                 string
	url                    string // of a PostgreSQL server that is there
	dir                    string
	compare, html          string
	peers                  bool
	actors                 int
	actorsTime             time.Duration
	distances              []time.Duration
	cpuProfile, memProfile string
	// plan and sizes follow from the flags; tests set them.
	plan  plan
	sizes sizes
}

// parse reads the command line. What is wrong with it is printed to w.
func parse(args []string, w io.Writer) (options, error) {
	o := options{plan: fullPlan, sizes: fullSizes()}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	run := f.String("run", "", "measure only the lines whose workload and peer match this `regexp`, as in 'insert-1 raw'")
	f.BoolVar(&o.quick, "quick", false, "fewer and shorter rounds: all lines within two minutes")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line instead of a table")
	engine := f.String("engine", enginePebble, "the subject's `engine`: pebble, mem, postgres for a PostgreSQL server that is started for the run, or postgres://USER@HOST/DATABASE for one that is there")
	f.StringVar(&o.dir, "dir", "", "measure on the disk of this `directory`; the system's temporary one if empty")
	f.BoolVar(&o.peers, "peers", false, "measure other SQLite drivers for Go too; their programs are built first, which takes minutes")
	f.IntVar(&o.actors, "actors", 0, "measure no line, but what `N` small actors cost: to make and to reopen them, in memory and on disk")
	f.DurationVar(&o.actorsTime, "actors-time", 0, "make no more actors for -actors when this `time` is over; 0 is no bound")
	f.Func("distance", "measure no line, but how long single operations take where a call of the engine takes these `trips`, as in 1ms,5ms, and none", func(list string) (err error) {
		o.distances, err = parseDistances(list)
		return err
	})
	f.StringVar(&o.compare, "compare", "", "say what changed since the run whose -json output is in this `file`")
	f.StringVar(&o.html, "html", "", "write a page with charts to this `file`; needs Go and this source")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this `file`; its samples are labelled with the side of the line")
	f.StringVar(&o.memProfile, "memprofile", "", "write a profile of all allocations to this `file`")
	err := f.Parse(args)
	if err != nil {
		return o, err
	}
	if o.run, err = regexp.Compile(*run); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", storeurl.Redact(f.Arg(0)))
	}
	if err == nil {
		o.engine, o.url, err = parseEngine(*engine)
	}
	if err == nil {
		err = o.checkModes(f)
	}
	if o.quick {
		o.plan, o.sizes = quickPlan, quickSizes()
	}
	if err != nil {
		fmt.Fprintln(w, "bench:", err)
	}
	return o, err
}

// checkModes refuses what -actors and -distance don't go with.
func (o *options) checkModes(f *flag.FlagSet) (err error) {
	switch {
	case o.actors < 0:
		return fmt.Errorf("-actors %d: less than none", o.actors)
	case o.actorsTime < 0:
		return fmt.Errorf("-actors-time %v: less than none", o.actorsTime)
	case o.distances != nil && o.actors > 0:
		return errors.New("-distance and -actors measure different things")
	case o.distances != nil && o.engine == enginePostgres:
		return errors.New("-distance puts an engine on this machine away, and a server is away already")
	}
	f.Visit(func(given *flag.Flag) {
		switch given.Name {
		case "actors-time":
			if o.actors == 0 {
				err = errors.New("-actors-time without -actors")
			}
		case "run":
			if o.actors > 0 {
				err = errors.New("-run is about lines, and -actors measures none")
			}
		case "peers", "compare", "html":
			if o.actors > 0 || o.distances != nil {
				err = fmt.Errorf("-%s is about lines, and -actors and -distance measure none", given.Name)
			}
		}
	})
	return err
}

// memProfileRate is how many allocated bytes stand behind one sample of an
// allocation profile: few, since operations allocate little.
const memProfileRate = 4096

// profiled is measureAll with the profiles that were asked for.
func (o options) profiled(ctx context.Context, out, info io.Writer) (returned error) {
	// What can't be written is known before anything is measured.
	for _, path := range []string{o.memProfile, o.html} {
		if path == "" {
			continue
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if o.memProfile != "" {
		runtime.MemProfileRate = memProfileRate
		defer func() { returned = errors.Join(returned, writeAllocs(o.memProfile)) }()
	}
	if o.cpuProfile != "" {
		stop, err := startCPU(o.cpuProfile)
		if err != nil {
			return err
		}
		defer func() { returned = errors.Join(returned, stop()) }()
	}
	return o.measureAll(ctx, out, info)
}

// startCPU starts a CPU profile; stop ends it.
func startCPU(path string) (stop func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func writeAllocs(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}

// measureAll measures the selected lines. Results go to out, what they were
// measured on to info when out is for programs.
func (o options) measureAll(ctx context.Context, out, info io.Writer) (err error) {
	var before []record
	if o.compare != "" { // what can't be read is known before anything is measured
		if before, err = readRecords(o.compare); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(o.dir, "greenroom-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := site{dir: dir, bin: filepath.Join(dir, "bin"), engine: o.engine, sizes: o.sizes}
	if o.engine == enginePostgres {
		// Not below dir: only the user of this process may enter that.
		if at.server, err = openServer(o.dir, o.url); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, at.server.stop()) }()
	}
	m, err := o.introduce(at, out, info)
	if err != nil {
		return err
	}
	if o.actors > 0 {
		return o.countActors(ctx, at, out)
	}
	if o.distances != nil {
		return o.measureDistances(ctx, at, out)
	}
	results, err := o.lines(ctx, at, m.environment(o.quick), out, info)
	if err != nil {
		return err
	}
	if !o.json {
		info = out
		if err := writeTable(out, results); err != nil {
			return err
		}
	}
	if o.compare != "" {
		if err := writeChanges(info, before, results); err != nil {
			return err
		}
	}
	if o.html != "" {
		return writePage(ctx, at, o.html, page{Facts: m.facts(), Before: before, Lines: records(results)})
	}
	return nil
}

// introduce says what is measured on.
func (o options) introduce(at site, out, info io.Writer) (machine, error) {
	m, err := inspect(at.dir)
	if err != nil {
		return m, err
	}
	if at.server != nil {
		m.server = at.server.describe()
	}
	if !o.json {
		info = out
	}
	return m, m.write(info)
}

// lines measures the selected lines; for programs it prints each as it is done. A line whose
// peer can't be had is left out, and info is told why.
func (o options) lines(ctx context.Context, at site, environment string, out, info io.Writer) ([]result, error) {
	var results []result
	found := false
	for _, l := range allLines(o.engine, o.peers) {
		if !o.run.MatchString(l.title()) {
			continue
		}
		found = true
		r, err := measure(ctx, l, at, o.plan)
		if errors.Is(err, errBuild) && ctx.Err() == nil {
			fmt.Fprintf(info, "skipped: %v\n", err)
			continue
		}
		if err != nil {
			return results, err
		}
		r.environment = environment
		results = append(results, r)
		if o.json {
			if err := writeJSON(out, r); err != nil {
				return results, err
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("no line matches -run %q", o.run)
	}
	return results, nil
}
