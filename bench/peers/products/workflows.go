package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

// steps is how many steps a workflow has. Each adds 1, to 1 at first.
const steps = 3

// result fails if a workflow's result is wrong.
func result(got int) error {
	if got != 1+steps {
		return fmt.Errorf("a workflow's result is %d", got)
	}
	return nil
}

// openDBOS opens workflows of DBOS in PostgreSQL, or in a SQLite file, with what it sets itself. An operation is to run one until its result.
func openDBOS(ctx context.Context, url string, _ int) (operation, func() error, error) {
	c, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", DatabaseURL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	flow := func(c dbos.Context, in int) (int, error) {
		for range steps {
			out, err := dbos.RunAsStep(c, func(context.Context) (int, error) { return in + 1, nil })
			if err != nil {
				return 0, err
			}
			in = out
		}
		return in, nil
	}
	dbos.RegisterWorkflow(c, flow, dbos.WithWorkflowName("flow"))
	if err := dbos.Launch(c); err != nil {
		return nil, nil, err
	}
	return func(context.Context, int) error {
			h, err := dbos.RunWorkflow(c, flow, 1)
			if err != nil {
				return err
			}
			got, err := h.GetResult()
			if err != nil {
				return err
			}
			return result(got)
		}, func() error {
			dbos.Shutdown(c, time.Second)
			return nil
		}, nil
}

// Bench is the service behind a Restate server.
type Bench struct{}

// Run is the workflow.
func (Bench) Run(ctx restate.Context, n int) (int, error) {
	for range steps {
		out, err := restate.Run(ctx, func(restate.RunContext) (int, error) { return n + 1, nil })
		if err != nil {
			return 0, err
		}
		n = out
	}
	return n, nil
}

// openRestate serves the service, and registers it at a Restate server. An operation is a call of it over the server's ingress. The place has the addresses of
// the ingress, of the server's admin API and of the service, with commas between them.
func openRestate(ctx context.Context, place string, callers int) (operation, func() error, error) {
	at := strings.Split(place, ",")
	if len(at) != 3 {
		return nil, nil, errUsage
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- server.NewRestate().WithLogger(slog.DiscardHandler, true).Bind(restate.Reflect(Bench{})).Start(ctx, at[2])
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	end := func() error {
		cancel()
		<-served // with the end of ctx
		return nil
	}
	for listens := false; !listens; {
		select {
		case err := <-served:
			return nil, nil, err
		default:
		}
		if c, err := net.Dial("tcp", at[2]); err == nil {
			listens = c.Close() == nil
		}
	}
	post := func(ctx context.Context, url, body string) (answer []byte, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		r, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		answer, err = io.ReadAll(r.Body)
		if cerr := r.Body.Close(); err == nil {
			err = cerr
		}
		if err == nil && r.StatusCode/100 != 2 {
			err = fmt.Errorf("%s answers %s: %s", url, r.Status, answer)
		}
		return answer, err
	}
	if _, err := post(ctx, "http://"+at[1]+"/deployments", `{"uri":"http://`+at[2]+`"}`); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, _ int) error {
		answer, err := post(ctx, "http://"+at[0]+"/Bench/Run", "1")
		if err != nil {
			return err
		}
		var got int
		if _, err := fmt.Sscan(string(answer), &got); err != nil {
			return err
		}
		return result(got)
	}, end, nil
}
