package serve_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/host/serve"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

var counter = &host.Type{Name: "counter", Actions: []host.AnyAction{
	host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
		err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
		return total, err
	}),
	host.NewAction("caller", func(c *host.Context, _ struct{}) (string, error) { return c.Caller().ID, nil }),
}}

// A program serves actors, as a process would.
type program struct {
	testing.TB
	url    string
	stderr strings.Builder
	end    func() (code int)
}

// start starts a program on a store, and waits until it serves.
func start(t testing.TB, c serve.Config, args ...string) *program {
	t.Helper()
	p := &program{TB: t}
	out, in := io.Pipe()
	c.Name, c.Stdout, c.Stderr = "shop", in, &p.stderr
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- c.Run(ctx, append(args, "--listen", "127.0.0.1:0"))
		_ = in.Close()
	}()
	p.end = func() int {
		cancel()
		return <-ended
	}
	lines := bufio.NewScanner(out)
	for p.url == "" && lines.Scan() {
		_, p.url, _ = strings.Cut(lines.Text(), " at ")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if p.url == "" {
		t.Fatalf("status %d: %s", p.end(), &p.stderr)
	}
	return p
}

// post calls an action of the counter "lobby".
func (p *program) post(action, args string) (status int, body string) {
	p.Helper()
	resp, err := http.Post(p.url+"/actors/counter/lobby/actions/"+action, "application/json", strings.NewReader(args))
	testkit.Must(p, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	testkit.Must(p, err)
	return resp.StatusCode, string(b)
}

// TestRun has a program of its own types served twice on one store, and ended in good order.
func TestRun(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	for _, want := range []string{"2", "4"} {
		p := start(t, serve.Config{Types: []*host.Type{counter}}, store)
		if status, body := p.post("add", "2"); status != http.StatusOK || body != want {
			t.Errorf("%d %s", status, body)
		}
		if code := p.end(); code != 0 {
			t.Errorf("status %d: %s", code, &p.stderr)
		}
	}
}

// TestAuthorize: the program's own code decides on callers, and finds them in its actions.
func TestAuthorize(t *testing.T) {
	refused := true
	p := start(t, serve.Config{Types: []*host.Type{counter}, Authorize: func(context.Context, *http.Request, *front.Access) (*host.Caller, error) {
		if refused {
			return nil, front.ErrUnauthenticated
		}
		return &host.Caller{ID: "ann"}, nil
	}, Pages: http.NotFoundHandler()}, "mem:")
	if status, body := p.post("caller", ""); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, body)
	}
	refused = false
	if status, body := p.post("caller", ""); status != http.StatusOK || body != `"ann"` {
		t.Errorf("%d %s", status, body)
	}
	if code := p.end(); code != 0 {
		t.Errorf("status %d: %s", code, &p.stderr)
	}
}

// TestMailbox: of the calls that wait for one actor, there are as many as --mailbox says.
func TestMailbox(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	slow := &host.Type{Name: "counter", Actions: []host.AnyAction{host.NewCommand("hold", func(*host.Context, struct{}) error {
		held <- struct{}{}
		<-release
		return nil
	})}, Other: func(*host.Context, string, host.Raw) (host.Raw, error) { return nil, nil }}
	p := start(t, serve.Config{Types: []*host.Type{slow}}, "mem:", "--mailbox", "1")
	answers := make(chan int)
	post := func(action string) {
		status, _ := p.post(action, "")
		answers <- status
	}
	go post("hold")
	<-held
	go post("look")
	go post("look")
	if status := <-answers; status != http.StatusServiceUnavailable {
		t.Errorf("the second call that waits: %d", status)
	}
	close(release)
	if first, second := <-answers, <-answers; first != http.StatusOK || second != http.StatusOK {
		t.Error(first, second)
	}
	if code := p.end(); code != 0 {
		t.Errorf("status %d: %s", code, &p.stderr)
	}
}

// TestUsage: what a program is called with that makes no sense, and its help.
func TestUsage(t *testing.T) {
	decides := serve.Config{Types: []*host.Type{counter}, Authorize: func(context.Context, *http.Request, *front.Access) (*host.Caller, error) { return nil, nil }}
	for _, tt := range []struct {
		config serve.Config
		args   string
		code   int
		want   string
	}{
		{serve.Config{Types: []*host.Type{counter}}, "", 2, "shop: STORE is missing\nusage: shop STORE [flags]\nSee 'shop --help'.\n"},
		{serve.Config{Types: []*host.Type{counter}}, "a b", 2, `the argument "b" is one too many`},
		{serve.Config{Types: []*host.Type{counter}}, "mem: --awake=-1", 2, "--awake and --mailbox are not negative"},
		{serve.Config{Types: []*host.Type{counter}}, "mem: --lisen x", 2, "no flag --lisen; did you mean --listen?"},
		{serve.Config{Types: []*host.Type{counter}}, "mem: --listen 0.0.0.0:0", 2, "others than this machine get there"},
		{serve.Config{Types: []*host.Type{counter}}, "mem: --listen 127.0.0.1:0 --token-file nowhere", 1, "nowhere: no such file"},
		{serve.Config{}, "mem:", 1, "there are no types to serve"},
		{decides, "mem: --jwks http://127.0.0.1/ --jwt-issuer x --jwt-audience y", 2, "decides by itself"},
	} {
		var stderr strings.Builder
		tt.config.Name, tt.config.Stderr = "shop", &stderr
		if code := tt.config.Run(t.Context(), strings.Fields(tt.args)); code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%q: status %d, %s", tt.args, code, &stderr)
		}
	}
	var help strings.Builder
	if code := (&serve.Config{Name: "shop", Stdout: &help}).Run(t.Context(), []string{"--help"}); code != 0 || !strings.Contains(help.String(), "  shop data --listen") || strings.Contains(help.String(), "no TLS: that") || strings.Contains(help.String(), "demo") {
		t.Errorf("status %d, %s", code, &help)
	}
}
