package inspector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/browsertest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/metrics/prom"
	"github.com/greenroomdb/greenroom/workflow"
)

// order adds a line to the actor's table, and fails for a product that there isn't.
var order = host.NewAction("order", func(c *host.Context, product string) (n int, err error) {
	if product == "unicorn" {
		return 0, &host.Error{Code: "sold_out", Message: "There are no unicorns."}
	}
	if _, err := c.Exec("create table if not exists line (id integer primary key, product text not null, price real, at text default current_timestamp)"); err != nil {
		return 0, err
	}
	if _, err := c.Exec("insert into line (product, price) values (?, 4.5)", product); err != nil {
		return 0, err
	}
	err = c.QueryRow("select count(*) from line").Scan(&n)
	return n, errors.Join(err, c.Label("customer", "42"), greenroom.SetState(c, map[string]any{"lines": n, "last": product, "paid": false}))
})

// newHosted serves the page of a store whose actors a host runs.
func newHosted(t *testing.T) (*rig, *host.Host) {
	t.Helper()
	engine := memkv.New()
	types := []*host.Type{{Name: "shop", Actions: []host.AnyAction{order}}}
	sink, err := prom.New(host.Metrics(types...)...)
	testkit.Must(t, err)
	h, err := host.Open(t.Context(), engine, types, &host.Options{Metrics: sink, Traces: &greenroom.TracesOptions{}})
	testkit.Must(t, err)
	store, err := greenroom.New(t.Context(), engine, nil)
	testkit.Must(t, err)
	registry := prometheus.NewRegistry()
	testkit.Must(t, errors.Join(registry.Register(sink), registry.Register(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "greenroom_host_actors_awake"}, func() float64 { return float64(h.Stats().Awake) }))))
	t.Cleanup(func() {
		testkit.Must(t, errors.Join(h.Close(context.WithoutCancel(t.Context())), store.Close(), engine.Close()))
	})
	return serve(t, store, &admin.Options{Actors: h, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}), h
}

// call orders things in some shops.
func (r *rig) call(h *host.Host, shops ...string) {
	r.Helper()
	for i, shop := range shops {
		_, err := order.Call(r.Context(), h, shop, []string{"tea", "bread", "cheese"}[i%3])
		testkit.Must(r, err)
	}
	_, err := order.Call(r.Context(), h, shops[0], "unicorn")
	if err == nil {
		r.Fatal("there are unicorns")
	}
}

// TestHost: the page of a running host shows what its actors do, and wakes them and puts them to sleep.
func TestHost(t *testing.T) {
	r, h := newHosted(t)
	r.call(h, "north", "north", "south")
	body := r.get("/")
	for _, want := range []string{`Actors awake <b>2</b>`, "<bdi>shop</bdi>", "<bdi>shop/north</bdi>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview hasn't %s: %s", want, body)
		}
	}
	at, writer := r.path("shop/north"), r.login(writeSecret)
	for _, verb := range []string{"sleep", "wake"} {
		if status, text := r.do(writer, at+"/do/"+verb); status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", verb, status, text)
		}
	}
	if body := r.get(at); !strings.Contains(body, "sold_out") || !strings.Contains(body, "actor.action.order") {
		t.Errorf("its failures are %s", body)
	}
	if body := r.get(at + "/traces"); !strings.Contains(body, "order") || !strings.Contains(body, `class="state failed"`) {
		t.Errorf("its traces are %s", body)
	}
	if status, text := r.do(writer, at+"/do/cell", "table", "line", "key", "rowid", "rowid", "1", "column", "product", "kind", "text", "value", "coffee"); status != http.StatusSeeOther {
		t.Errorf("an edit beside a host: %d %s", status, text)
	}
	if body := r.get(at + "/tables/line"); !strings.Contains(body, "<bdi>coffee</bdi>") {
		t.Errorf("the table is %s", body)
	}
}

// TestBrowserHost: the page of a host under load shows what comes, while it comes, and each view can be looked at meanwhile.
func TestBrowserHost(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	r, h := newHosted(t)
	r.call(h, "north")
	over := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if _, err := order.Call(r.Context(), h, "north", "tea"); err != nil {
					t.Error(err)
					return
				}
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-over }()
	p := r.visit(b, "/", readSecret)
	p.Until(`(document.querySelector(".chart polyline")?.getAttribute("points").split(" ").length ?? 0) > 2 && parseFloat(document.querySelectorAll("figure b")[1].textContent) > 1`)
	p.Go(r.url + r.path("shop/north") + "/tables/line?desc=true")
	p.Until(`document.getElementById("main").dataset.listens === "true"`)
	const last = `document.querySelector("tbody th").textContent`
	p.Until(`Number(` + last + `) > ` + p.Eval(last) + ` + 50`)
	at := r.path("shop/north")
	paths := map[string]string{"table": at + "/tables/line?desc=true", "actor": at, "traces": at + "/traces"}
	if testkit.Long() {
		paths["overview"], paths["actors"] = "/", "/actors"
		paths["trace"] = at + regexp.MustCompile(`/traces/[0-9a-f]{32}`).FindString(r.get(at+"/traces"))
		for view := range views {
			if view != "" && view != "/tables/t" {
				paths[view[1:]] = at + view
			}
		}
	}
	r.look(t, p, paths, testkit.Long())
}

// TestScreenshots makes the pictures of the docs, with -update.
func TestScreenshots(t *testing.T) {
	if !*update {
		t.Skip("it writes pictures with -update")
	}
	b := browsertest.New(t)
	r, h := newHosted(t)
	r.call(h, "north", "south", "east", "north", "west", "north")
	r.actor("order/1001", func(a *greenroom.Actor) error {
		_, err := greenroom.RunWorkflow(t.Context(), a, func(c *workflow.Context, order int) (string, error) {
			for i, step := range []string{"reserve", "charge", "pack"} {
				work := func(context.Context) (string, error) {
					<-time.After(time.Duration(20*(i+1)) * time.Millisecond) // for the timeline
					return step + " done", nil
				}
				if _, err := workflow.Step(c, step, work); err != nil {
					return "", err
				}
			}
			_, err := workflow.Step(c, "ship", func(context.Context) (string, error) { return "", errors.New("the carrier doesn't answer") })
			return "", err
		}, 1001)
		if err == nil {
			return errors.New("the carrier answers")
		}
		return nil
	})
	p := r.visit(b, "/", writeSecret)
	p.Shown(browsertest.Look{Width: 1000, Height: 560})
	p.Go(r.url + "/")
	for n := range 8 { // in which the page loads itself as often
		r.call(h, slices.Repeat([]string{"north", "south", "east"}, 1+(n*7)%5)...)
		p.Until(fmt.Sprintf(`Number(document.getElementById("main").dataset.loads ?? 0) > %d`, n))
	}
	testkit.Must(t, os.WriteFile(filepath.Join("..", "docs", "images", "page-overview.png"), p.Screenshot(), 0o644))
	for name, path := range map[string]string{"table": r.path("shop/north") + "/tables/line", "workflow": r.path("order/1001") + "/workflow"} {
		p.Go(r.url + path)
		testkit.Must(t, os.WriteFile(filepath.Join("..", "docs", "images", "page-"+name+".png"), p.Screenshot(), 0o644))
	}
}
