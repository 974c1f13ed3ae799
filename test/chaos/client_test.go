//go:build unix

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// fronts are how clients reach the hosts.
type fronts struct {
	machines []*machine
	http     *http.Client
}

func newFronts(machines []*machine) *fronts {
	return &fronts{machines, &http.Client{Timeout: callTimeout + time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
}

// errNoHost: the machine has no process that serves.
var errNoHost = errors.New("no host")

// A refusal is what a host says instead of an answer.
type refusal struct {
	Status        int
	Code, Message string
}

func (r *refusal) Error() string { return r.Code }

// call asks one machine's host for an action of an actor, and decodes the answer into out.
func (f *fronts) call(ctx context.Context, m *machine, actor, action string, in, out any) error {
	at := m.at()
	if at == "" {
		return errNoHost
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("http://%s/actors/%s/actions/%s", at, actor, action), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := f.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return json.NewDecoder(resp.Body).Decode(out)
	}
	no := &refusal{Status: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(no); err != nil {
		return err
	}
	return no
}

// ask has one machine's host do an action in a turn of some counters, and returns what each of them answers.
func ask[T any](ctx context.Context, f *fronts, m *machine, called []int, action string, in several) (answers []T, err error) {
	actor := counterKey(called[0])
	if in.With = called[1:]; len(in.With) > 0 {
		err = f.call(ctx, m, actor, action+"Together", in, &answers)
	} else {
		answers = make([]T, 1)
		err = f.call(ctx, m, actor, action, in.ID, &answers[0])
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// judge says what an error of call means. Whatever a host says, but that it doesn't know, means
// that nothing has landed; so does a connection that was never made.
func judge(err error) (o outcome, why string) {
	var no *refusal
	var op *net.OpError
	switch {
	case err == nil:
		return answered, ""
	case errors.As(err, &no) && no.Code == "unknown_outcome":
		return unknown, no.Code
	case errors.As(err, &no):
		return refused, no.Code
	case errors.Is(err, errNoHost):
		return refused, err.Error()
	case errors.As(err, &op) && op.Op == "dial":
		return refused, "not connected"
	}
	return unknown, "connection lost"
}

// A client calls one actor after the other, through any host.
type client struct {
	number  int
	rand    *rand.Rand
	fronts  *fronts
	history *history
	where   [actors]int // the machine that answered last, of each actor
}

// run calls until the context ends; what it has begun it ends.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		called, where := c.pick()
		if c.rand.IntN(10) == 0 {
			where = c.rand.IntN(len(c.fronts.machines))
		}
		if c.call(called, c.fronts.machines[where]) {
			c.where[called[0]] = where
			continue
		}
		c.where[called[0]] = c.rand.IntN(len(c.fronts.machines))
		pause := time.NewTimer(time.Duration(c.rand.IntN(50)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// All clients call those that are called together at one machine for a while, busy of every round, then not at all, and then at the next machine.
const busy, round = 2 * idle, 4 * idle

// pick returns what is called next, one actor or two, and the number of a machine that may have it.
func (c *client) pick() (called []int, where int) {
	now := c.history.now()
	switch n := c.rand.IntN(100); {
	case n == 0:
		called = []int{firstSeldom + c.rand.IntN(firstJoint-firstSeldom)}
	case n < 70 && now%round < busy:
		called = c.rand.Perm(actors - firstJoint)[:1+min(1, c.rand.IntN(3))]
		for i := range called {
			called[i] += firstJoint
		}
		return called, int(now/round) % len(c.fronts.machines)
	default:
		called = []int{c.rand.IntN(firstSeldom)}
	}
	return called, c.where[called[0]]
}

// call makes one call, and says whether it was answered.
func (c *client) call(called []int, m *machine) bool {
	a := call{Client: c.number, Actors: called, Action: "get"}
	if c.rand.IntN(2) == 0 {
		a.Action, a.ID, a.To = "add", c.history.id(), called
		if len(called) > 1 && c.rand.IntN(3) == 0 {
			a.To = called[1:]
		}
	}
	a.Begin = c.history.now()
	var err error
	a.Answers, err = ask[answer](context.Background(), c.fronts, m, called, a.Action, several{ID: a.ID, Look: len(a.To) < len(called)})
	a.End = c.history.now()
	a.Outcome, a.Why = judge(err)
	if errors.Is(err, errNoHost) {
		return false // nothing was called
	}
	c.history.add(a)
	return a.Outcome == answered
}

// counterKey and ledgerKey are the addresses of an actor and of the one that it writes to.
func counterKey(actor int) string { return fmt.Sprintf("counter/%d", actor) }
func ledgerKey(actor int) string  { return fmt.Sprintf("ledger/%d", actor) }
