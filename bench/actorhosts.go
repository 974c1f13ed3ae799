package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// workerd is Cloudflare's runtime of Durable Objects, with its storage on the local disk. See https://github.com/cloudflare/workerd.
const workerd = "workerd"

// An actorHost serves actors over HTTP, from a process of its own: a call is a POST of a JSON string, which is inserted in the actor's database, and is answered
// with the number of rows.
type actorHost struct {
	s       *stand
	address string
	// command returns what serves the actors of dir at the address, and path the path of an actor.
	command func(dir string) *exec.Cmd
	path    string
	client  http.Client
}

// ofGreenroom and ofWorkerd are the two sides.
func (h *actorHost) ofGreenroom() {
	h.path = "/actors/bench/%d/actions/insert"
	program := build(h.s, filepath.Join(root(), "bench", "actorhost"))
	h.command = func(dir string) *exec.Cmd {
		return exec.Command(program, dir, "--listen="+h.address, "--awake=10000", "--mailbox=256", "--idle=1h", "--traces=false")
	}
}

func (h *actorHost) ofWorkerd() {
	h.path = "/%d"
	peers, _ := peersDir()
	packages := npm{h.s.ctx, h.s.bin}.packages(filepath.Join(peers, workerd))
	for _, name := range []string{"config.capnp", "worker.js"} {
		copyFile(filepath.Join(peers, workerd, name), filepath.Join(packages, name))
	}
	h.command = func(dir string) *exec.Cmd {
		check(os.MkdirAll(dir, 0o755))
		return exec.Command(filepath.Join(packages, "node_modules", "@cloudflare", "workerd-linux-64", "bin", "workerd"), "serve", filepath.Join(packages, "config.capnp"),
			"--socket-addr=http="+h.address, "--directory-path=disk="+dir)
	}
}

// serve starts the host, on what the side has stored.
func (h *actorHost) serve() {
	h.client = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: math.MaxInt}}
	h.s.end(func() error { h.client.CloseIdleConnections(); return nil })
	h.s.processes.serve(h.s, h.command(must(filepath.Abs(filepath.Join(h.s.dir, "store")))), h.address)
}

// insertedText is what a call inserts.
var insertedText = `"` + strings.Repeat("x", 100) + `"`

// call calls an actor.
func (h *actorHost) call(actor int) error {
	r, err := h.client.Post("http://"+h.address+fmt.Sprintf(h.path, actor), "application/json", strings.NewReader(insertedText))
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(r.Body)
	if cerr := r.Body.Close(); err == nil {
		err = cerr
	}
	if err == nil && (r.StatusCode != http.StatusOK || len(answer) == 0) {
		err = fmt.Errorf("actor %d answers %s: %s", actor, r.Status, answer)
	}
	return err
}

// calls is host/call: so many clients, each of which calls the actor of its number, or that of the number it is modulo actors.
func calls(of func(*actorHost), actors, clients int) func(*stand) {
	return func(s *stand) {
		h := &actorHost{s: s, address: freeAddress()}
		of(h)
		h.serve()
		for i := range clients {
			s.workers = append(s.workers, repeat(func() error { return h.call(i % actors) }))
		}
		check(together(s.workers, func(int) func() bool { return countdown(1) }))
	}
}

// leastWakes is how many actors wake at least after a start: the first ones wait for what the host does once.
const leastWakes = 200

// wakes is host/wake: the first call of an actor since its host was started again.
func wakes(of func(*actorHost)) func(*stand) {
	return func(s *stand) {
		h, made, took := &actorHost{s: s, address: freeAddress()}, 0, time.Duration(0)
		of(h)
		visit := func(do func()) error {
			return s.visit(func(*stand) {
				h.serve()
				do()
			})
		}
		call := func(from, to int) {
			for i := from; i < to; i++ {
				began := time.Now()
				check(h.call(i))
				s.took = append(s.took, time.Since(began))
			}
		}
		s.run = func(n int) error {
			many := max(n, leastWakes)
			if made < many {
				if err := visit(func() { call(made, many) }); err != nil {
					return err
				}
				made = many
			}
			return visit(func() {
				s.took = s.took[:0]
				began := time.Now()
				call(0, many)
				took = time.Since(began) * time.Duration(n) / time.Duration(many)
			})
		}
		s.say = func(_ int, t *tally) { *t = tally{took: took, cpu: math.NaN(), fsyncs: math.NaN(), logged: math.NaN()} }
	}
}

// resident is host/resident: how many actors there may be in a GiB of the resident memory of a host, by how that grows with the first call of each of so many.
func resident(of func(*actorHost), actors int) func(*stand) {
	return func(s *stand) {
		h, each := &actorHost{s: s, address: freeAddress()}, 0.0
		of(h)
		s.run = func(int) error {
			return s.visit(func(*stand) {
				h.serve()
				check(h.call(actors)) // what all actors share
				before := residentMemory(s.processes.ids)
				for i := range actors {
					check(h.call(i))
				}
				each = max(residentMemory(s.processes.ids)-before, 1) / float64(actors) / (1 << 30)
			})
		}
		s.say = func(n int, t *tally) {
			*t = tally{took: time.Duration(float64(n) * each * float64(time.Second)), cpu: math.NaN(), fsyncs: math.NaN(), logged: math.NaN(), counts: faultkv.Counts{}}
		}
	}
}

// residentMemory returns the bytes of memory that processes have.
func residentMemory(ids []int) (n float64) {
	for _, id := range ids {
		for line := range bytes.Lines(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", id)))) {
			var kib float64
			if _, err := fmt.Sscanf(string(line), "VmRSS: %f kB", &kib); err == nil {
				n += 1024 * kib
			}
		}
	}
	return n
}
