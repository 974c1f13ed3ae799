package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A measurement is that of one process: what is asked for, and what it found.
type measurement struct {
	Side    string
	Actors  int
	Seconds int
	Dir     string
	Backup  bool

	// Start is from the call that begins the backup until all is in it.
	Start time.Duration
	// CPU is the processor time, in percent of one core.
	CPU float64
	// Memory is what the process has of it, in MiB, when what isn't used is given back.
	Memory                     float64
	Threads, Files, Goroutines int
	// Lags are how long it took from each commit until it was in the backup.
	Lags []time.Duration
}

const (
	// settle is how long a process runs before it is measured.
	settle = 3 * time.Second
	// poll is how often the backup is asked for what it has.
	poll = 10 * time.Millisecond
	// lags is how many rows there are of which the lag is measured.
	lags = 5
	// patience is how long all may take to be in the backup.
	patience = 5 * time.Minute
)

// run makes the actors, if need be, and the measurement.
func (m *measurement) run(ctx context.Context) (err error) {
	s := sideOf(m.Side)
	if err := s.open(ctx, m.Dir, m.Actors); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if m.Backup {
		begun := time.Now()
		if err := s.start(ctx); err != nil {
			return err
		}
		if err := wait(ctx, s.begun); err != nil {
			return err
		}
		m.Start = time.Since(begun)
	}
	rnd := rand.New(rand.NewPCG(1, uint64(m.Actors)))
	pause(ctx, settle)
	before, begun := cpuTime(), time.Now()
	for i := range m.Seconds {
		pause(ctx, time.Until(begun.Add(time.Duration(i)*time.Second)))
		if _, err := s.insert(ctx, rnd.IntN(m.Actors)); err != nil {
			return err
		}
	}
	pause(ctx, time.Until(begun.Add(time.Duration(m.Seconds)*time.Second)))
	m.CPU = 100 * (cpuTime() - before).Seconds() / time.Since(begun).Seconds()
	if m.Backup {
		if err := m.lag(ctx, s, rnd); err != nil {
			return err
		}
	}
	debug.FreeOSMemory()
	m.Goroutines = runtime.NumGoroutine()
	return errors.Join(ctx.Err(), m.look())
}

// lag inserts some rows, and measures how long they take to be in the backup. Only now is that polled, for polls take processor time.
func (m *measurement) lag(ctx context.Context, s side, rnd *rand.Rand) error {
	pause(ctx, settle)
	for range lags {
		there, err := s.insert(ctx, rnd.IntN(m.Actors))
		if err != nil {
			return err
		}
		done := time.Now()
		if err := wait(ctx, there); err != nil {
			return err
		}
		m.Lags = append(m.Lags, time.Since(done))
		pause(ctx, time.Duration(rnd.Int64N(int64(time.Second)))) // so that it begins at any time of the second
	}
	return nil
}

// look asks the system about the process.
func (m *measurement) look() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	number := func(name string) int {
		_, rest, _ := strings.Cut(string(status), "\n"+name+":")
		text, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		n, nerr := strconv.Atoi(strings.TrimSuffix(text, " kB"))
		err = errors.Join(err, nerr)
		return n
	}
	m.Memory, m.Threads = float64(number("VmRSS"))/1024, number("Threads")
	files, ferr := os.ReadDir("/proc/self/fd")
	m.Files = len(files)
	return errors.Join(err, ferr)
}

// wait polls until is says so.
func wait(ctx context.Context, is func() (bool, error)) error {
	for end := time.Now().Add(patience); ; pause(ctx, poll) {
		ok, err := is()
		switch {
		case ok || err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("not all is in the backup after %v", patience)
		}
	}
}

// pause waits for a time, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// cpuTime returns the processor time of the process, its own and the system's for it.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
