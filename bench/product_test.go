package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// traced skips a test where strace isn't there or may not look at processes.
func traced(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace doesn't count fsyncs here: %v %s", err, out)
	}
}

// TestDurability: the fsyncs of a process are counted with those that it starts, and say which side is durable.
func TestDurability(t *testing.T) {
	traced(t)
	of := func(s *stand, script string) *stand {
		own := s.newStand(s.site, script)
		own.processes.ask(own, exec.Command("sh", "-c", `cd "$1"; while read n; do for i in $(seq $n); do `+script+`; done; echo $n; done`, "sh", own.dir))
		return own
	}
	staged(t, site{}, func(s *stand) {
		twice, none := of(s, `echo x >f; sync -d f; sync f`), of(s, `echo x >f`)
		for _, tt := range []struct {
			subject, peer *stand
			want          string
		}{
			{twice, none, "subject only: 2, 0"}, {none, none, "neither: 0, 0"}, {none, twice, "peer only: 0, 2"}, {twice, twice, "both: 2, 2"},
			{s, s, ""}, // in this process
		} {
			r := result{}
			r.countFsyncs(tt.subject, tt.peer)
			if got := r.durable.String(); got != tt.want {
				t.Errorf("durable are %q, want %q", got, tt.want)
			}
		}
		if before, after := twice.tally().cpu, twice.measured(200).cpu; before < 0 || after <= 0 {
			t.Errorf("200 operations of other processes took %v s of processor time, those before %v", after, before)
		}
	})
	if got := (&durability{Settings: "synchronous=FULL"}).String(); got != "not counted; synchronous=FULL" {
		t.Errorf("without strace: %q", got)
	}
}

// TestStartFails: a server that ends before it serves is an error that has what it said.
func TestStartFails(t *testing.T) {
	err := begin(t.Context()).visit(func(s *stand) {
		s.processes.serve(s, exec.Command("sh", "-c", "echo no port today; exit 1"), freeAddress())
	})
	if want := "sh has ended: no port today\n"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// product runs a line with a product for a round, and returns what it measured.
func product(t *testing.T, title string) (r result) {
	t.Helper()
	for _, l := range lines(enginePebble, true) {
		if l.title() == title {
			return measured(t, l, site{bin: t.TempDir(), on: enginePebble, sizes: tinySizes()}, onePass(1))
		}
	}
	t.Fatalf("no line is called %q", title)
	return r
}

// TestRivetKit runs a program of RivetKit's on Greenroom and beside its development server.
func TestRivetKit(t *testing.T) {
	if dir := os.Getenv(rivetkitDir); dir == "" {
		t.Skipf("%s names no folder with Node and RivetKit; bash .ci/run rivetkit makes one", rivetkitDir)
	} else if _, err := os.Stat(filepath.Join(dir, rivetkit22, "node_modules")); err != nil {
		t.Skipf("RivetKit %s isn't there: %v", rivetkit22, err)
	}
	traced(t)
	r := product(t, "rivetkit/http-mem "+rivetDev).record()
	if r.Ratio <= 0 || r.P50.Subject == nil || *r.Durable.Subject != 0 || *r.Durable.Peer < mostlySynced {
		t.Errorf("record %+v, durable: %v", r, r.Durable)
	}
}

// TestActorHosts runs the subjects of the lines with actor hosts.
func TestActorHosts(t *testing.T) {
	if _, ok := peersDir(); !ok {
		t.Skip("no Go to build the program with")
	}
	at := site{bin: testkit.SharedDir(t)}
	for name, open := range map[string]func(*stand){"calls": calls((*actorHost).ofGreenroom, 2, 4), "wakes": wakes((*actorHost).ofGreenroom), "resident": resident((*actorHost).ofGreenroom, 3)} {
		t.Run(name, func(t *testing.T) {
			if name == "resident" && runtime.GOOS != "linux" {
				t.Skip("another system doesn't tell the memory of a process so")
			}
			staged(t, at, func(s *stand) {
				open(s)
				if took := s.measured(5).took; took <= 0 {
					t.Errorf("5 operations took %v", took)
				}
				if want := map[string]int{"calls": 1}[name]; len(s.processes.ids) != want {
					t.Errorf("%d processes go on, want %d", len(s.processes.ids), want)
				}
			})
		})
	}
}

// TestDurableWork runs the subjects of the lines with libraries, on Pebble and on a PostgreSQL server of their own, whose processes are the side's.
func TestDurableWork(t *testing.T) {
	l := durableWork{callers: 3}
	for name, begin := range map[string]func(durableWork, *stand) []func() error{
		"cycle": durableWork.cycle, "cycleEach": durableWork.cycleEach, "workflows": durableWork.workflows,
	} {
		for _, engine := range []string{enginePebble, enginePostgres} {
			t.Run(name+"/"+engine, func(t *testing.T) {
				if _, err := pglocal.Search(); engine == enginePostgres && err != nil {
					t.Skip(err)
				}
				t.Parallel()
				staged(t, site{sizes: tinySizes()}, func(s *stand) {
					l.on(engine, begin)(s)
					got := s.measured(6)
					if got.counts.Commits == 0 || len(s.took) != 6 {
						t.Errorf("6 operations: %+v, %d times", got, len(s.took))
					}
					if server := len(s.processes.ids) > 0; server != (engine == enginePostgres) {
						t.Errorf("processes %v", s.processes.ids)
					}
				})
			})
		}
	}
}
