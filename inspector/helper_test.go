package inspector_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/inspector"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/workflow"
)

func TestMain(m *testing.M) {
	inspector.SetWriteTime(2 * time.Second)
	testkit.Main(m)
}

// Secrets of the tokens.
const (
	readSecret  = "0123456789abcdef"
	writeSecret = "fedcba9876543210"
)

// A rig is a store whose page is served.
type rig struct {
	testing.TB
	store  *greenroom.Store
	page   *inspector.Page
	url    string
	client *http.Client // without cookies, which follows no redirects
}

func newRig(t *testing.T) *rig {
	t.Helper()
	engine := memkv.New()
	store, err := greenroom.New(t.Context(), engine, nil)
	testkit.Must(t, err)
	r := serve(t, store, &admin.Options{})
	t.Cleanup(func() { testkit.Must(t, errors.Join(store.Close(), engine.Close())) })
	return r
}

// serve serves the page of a store, and the API below it.
func serve(t testing.TB, store *greenroom.Store, opts *admin.Options) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	r := &rig{TB: t, store: store, url: "http://" + ln.Addr().String()}
	r.page = inspector.New(func(ctx context.Context, secret string) (*admin.Client, error) {
		return admin.DialAddress(ctx, ln.Addr().String(), secret)
	}, &inspector.Options{Logger: log, Hosts: []string{"greenroom.test"}})
	opts.Logger, opts.Page = log, r.page
	opts.Tokens = []admin.Token{{Name: "reader", Role: admin.RoleRead, Secret: readSecret}, {Name: "writer", Role: admin.RoleWrite, Secret: writeSecret}}
	api, err := admin.Serve(t.Context(), ln, store, opts)
	testkit.Must(t, err)
	r.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.page.Close()
		testkit.Must(t, api.Close())
	})
	return r
}

// actor runs fn with an actor.
func (r *rig) actor(name string, fn func(a *greenroom.Actor) error) {
	r.Helper()
	a, err := r.store.Actor(r.Context(), name, &greenroom.ActorOptions{Traces: &greenroom.TracesOptions{}})
	testkit.Must(r, err)
	testkit.Must(r, errors.Join(fn(a), a.Close()))
}

// make makes an actor that has one key.
func (r *rig) make(name string) {
	r.Helper()
	r.actor(name, func(a *greenroom.Actor) error {
		return a.Update(r.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) })
	})
}

// path returns the path of the pages of an actor.
func (r *rig) path(name string) string {
	r.Helper()
	id, err := r.store.ID(r.Context(), name)
	testkit.Must(r, err)
	return "/actors/id:" + id.String()
}

// send sends a request with headers, and returns the answer and its body.
func (r *rig) send(method, path string, form url.Values, headers http.Header) (*http.Response, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(form.Encode()))
	testkit.Must(r, err)
	for name, values := range headers {
		req.Header[name] = values
	}
	if host := headers.Get("Host"); host != "" {
		req.Host = host
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := r.client.Do(req)
	testkit.Must(r, err)
	body, err := io.ReadAll(resp.Body)
	testkit.Must(r, errors.Join(err, resp.Body.Close()))
	return resp, string(body)
}

func bearer(secret string) http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }

// get returns a page.
func (r *rig) get(path string) string {
	r.Helper()
	resp, body := r.send(http.MethodGet, path, nil, bearer(readSecret))
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(body, "</html>\n") {
		r.Fatalf("%s: %s %.2000s", path, resp.Status, body)
	}
	return body
}

// A content is what furnish gives to an actor.
type content struct {
	text  string // that is part of all names and values
	long  string // a value
	steps int
}

// furnish gives an actor everything that an actor may have.
func (r *rig) furnish(name string, c content) {
	r.Helper()
	ctx := r.Context()
	r.actor(name, func(a *greenroom.Actor) error {
		err := a.Update(ctx, func(tx *greenroom.Tx) error {
			quoted := `"` + strings.ReplaceAll(strings.ReplaceAll("t"+c.text, "\x00", ""), `"`, `""`) + `"`
			_, err := tx.Exec("create table " + quoted + " (" + strings.Replace(quoted, `"t`, `"c`, 1) + " text, n, b blob)")
			if err == nil {
				_, err = tx.Exec("insert into "+quoted+" values (?, 7, x'00ff'), (?, null, 2.5)", "cell"+c.text, c.long)
			}
			if err == nil {
				_, err = tx.Enqueue(queue.Send{Name: "name" + c.text, Body: map[string]string{"field" + c.text: "body" + c.text + c.long[:min(len(c.long), 6000)]}})
			}
			if err == nil {
				_, err = tx.After(time.Hour, "action"+c.text, "argument"+c.text)
			}
			if err == nil {
				err = errors.Join(greenroom.SetState(tx, map[string]any{"state" + c.text: []any{"item" + c.text, 7, true, nil, c.long[:min(len(c.long), 6000)]}}),
					tx.Label("label", "value"+strings.ReplaceAll(c.text, "\x00", "")), tx.Put([]byte("key"+c.text), []byte("value"+c.text)))
			}
			return err
		})
		if err != nil {
			return err
		}
		_, err = greenroom.RunWorkflow(ctx, a, func(w *workflow.Context, in string) (string, error) {
			for i := range c.steps {
				if _, err := workflow.Step(w, fmt.Sprint("step", i, c.text), func(context.Context) (string, error) { return "output" + c.text, nil }); err != nil {
					return "", err
				}
			}
			return in, errors.New("failure" + c.text)
		}, "input"+c.text)
		if err == nil {
			return errors.New("the workflow hasn't failed")
		}
		tr, err := a.Traces(ctx)
		if err != nil {
			return err
		}
		_, span := tr.Start(ctx, "span"+c.text, nil)
		span.SetAttributes(traces.String("attribute"+c.text, "is"+c.text), traces.String("workflow.step.id", "step"+c.text))
		span.SetStatus(traces.StatusError, "status"+c.text)
		span.End()
		err = a.Update(ctx, func(tx *greenroom.Tx) error {
			conns, err := tx.Connections()
			if err != nil {
				return err
			}
			state, err := conn.Encode("connection" + c.text)
			if err != nil {
				return err
			}
			made, err := conns.Create(conn.Info{Path: "/path" + c.text, State: state})
			if err == nil {
				err = conns.Subscribe(made, "event"+c.text)
			}
			return err
		})
		return errors.Join(err, a.Sync(ctx))
	})
}

// update has TestScreenshots write its pictures.
var update = flag.Bool("update", false, "write the pictures of the docs anew")

// keyLink matches the path of a key, below that of its actor.
var keyLink = regexp.MustCompile(`/keys/[0-9a-f]+`)

// trace returns the path of the trace of the span that furnish makes.
func (r *rig) trace(at string) string {
	r.Helper()
	m := regexp.MustCompile(`(/traces/[0-9a-f]{32})"><bdi>span`).FindStringSubmatch(r.get(at + "/traces"))
	if m == nil {
		r.Fatal("the trace isn't there")
	}
	return at + m[1]
}
