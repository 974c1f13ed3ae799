//go:build unix

package js_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/clients/js"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/browsertest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestServeChild is the process that is killed.
func TestServeChild(t *testing.T) {
	dir, ln := testkit.Serve(t)
	engine, err := pebblekv.Open(dir, nil)
	testkit.Must(t, err)
	h, err := host.Open(t.Context(), engine, []*host.Type{ledger()}, &host.Options{IdleTimeout: 10 * time.Millisecond})
	testkit.Must(t, err)
	secret, err := front.StoredSecret(t.Context(), engine)
	testkit.Must(t, err)
	f, err := front.New(h, &front.Options{WithoutToken: true, Secret: secret, Pages: pages{http.FileServerFS(os.DirFS("testdata")), js.Files()}})
	testkit.Must(t, err)
	testkit.Must(t, f.Server().Serve(ln)) // until it is killed
}

// pages are the files of testdata, and the client.
type pages struct {
	http.Handler
	client fs.FS
}

// ServeHTTP implements http.Handler.
func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/greenroom.js" {
		http.FileServerFS(p.client).ServeHTTP(w, r)
		return
	}
	p.Handler.ServeHTTP(w, r)
}

func TestMain(m *testing.M) { testkit.Main(m) }

// TestKill has a client in Node call and listen while its host is killed and started again: each call is answered once and has run once, and
// each event that the actor keeps comes once.
func TestKill(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	s := testkit.NewServer(t, "TestServeChild")
	n.Eval(`globalThis.run = kills.start("` + s.URL + `", client), null`)
	testKills(t, n, s, testkit.Pick(3, 8, 30))
}

// TestKillBrowser does what TestKill does in a browser.
func TestKillBrowser(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	s := testkit.NewServer(t, "TestServeChild")
	tab := b.Open(s.URL + "/page.html")
	tab.Eval(`Promise.all([import("/kills.js"), import("/greenroom.js")]).then(([kills, client]) => { globalThis.run = kills.start(location.origin, client); })`)
	testKills(t, tab, s, testkit.Pick(0, 3, 30))
}

// testKills kills the host so often, and then compares what the client was told with what the actor has.
func testKills(t *testing.T, run runtime, s *testkit.Server, kills int) {
	for i := range kills {
		run.Eval(fmt.Sprintf(`run.answered(%d)`, 30+i%7)) // so that some are under way
		s.Kill()
		s.Start()
	}
	run.Eval(`run.answered(30)`)
	var told struct {
		Answers map[string][]int64
		Fed     []int64
		Resumed int
	}
	testkit.Must(t, json.Unmarshal([]byte(run.Eval(`run.finish().then(JSON.stringify)`)), &told))

	var ids []int64
	words := map[string]bool{}
	for since := int64(0); ; {
		var page []entry
		resp, err := http.Post(s.URL+"/actors/ledger/a%2Fb/actions/entries", "application/json", strings.NewReader(strconv.FormatInt(since, 10)))
		testkit.Must(t, err)
		testkit.Must(t, json.NewDecoder(resp.Body).Decode(&page))
		testkit.Must(t, resp.Body.Close())
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if words[e.Word] {
				t.Errorf("%s has run twice", e.Word)
			}
			words[e.Word] = true
			if !slices.Equal(told.Answers[e.Word], []int64{e.ID}) {
				t.Errorf("%s is entry %d, and was answered with %v", e.Word, e.ID, told.Answers[e.Word])
			}
			ids = append(ids, e.ID)
			since = e.ID
		}
	}
	if len(told.Answers) != len(ids) {
		t.Errorf("%d calls were answered, and %d have run", len(told.Answers), len(ids))
	}
	if !slices.Equal(told.Fed, ids) {
		t.Errorf("the events were %v, want %v", told.Fed, ids)
	}
	if told.Resumed < kills {
		t.Errorf("the connection was resumed %d times after %d kills", told.Resumed, kills)
	}
	t.Logf("%d calls, %d times resumed", len(ids), told.Resumed)
}
