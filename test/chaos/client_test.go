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
		actor := c.rand.IntN(actors - seldom)
		if c.rand.IntN(100) == 0 {
			actor = actors - seldom + c.rand.IntN(seldom)
		}
		where := c.where[actor]
		if c.rand.IntN(10) == 0 {
			where = c.rand.IntN(len(c.fronts.machines))
		}
		if c.call(actor, c.fronts.machines[where]) {
			c.where[actor] = where
			continue
		}
		c.where[actor] = c.rand.IntN(len(c.fronts.machines))
		pause := time.NewTimer(time.Duration(c.rand.IntN(50)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// call makes one call, and says whether it was answered.
func (c *client) call(actor int, m *machine) bool {
	a := call{Client: c.number, Actor: actor, Action: "get"}
	if c.rand.IntN(2) == 0 {
		a.Action, a.ID = "add", c.history.id()
	}
	a.Begin = c.history.now()
	err := c.fronts.call(context.Background(), m, counterKey(actor), a.Action, a.ID, &a.Answer)
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
