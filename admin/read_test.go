package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/adminsock"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/queue"
)

// ask makes a request on the socket, and returns the answer.
func (r *rig) ask(method, path, body string) (status int, text string) {
	r.Helper()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return adminsock.Dial(ctx, r.dir) }}}
	defer c.CloseIdleConnections()
	return send(r.T, c, method, "http://greenroom"+path, body, nil)
}

// send makes a request with headers.
func send(t *testing.T, c *http.Client, method, url, body string, header http.Header) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// get decodes the answer to a GET.
func get[T any](r *rig, path string) (out T) {
	r.Helper()
	status, text := r.ask(http.MethodGet, path, "")
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || status != http.StatusOK {
		r.Fatalf("GET %s: %d %s, %v", path, status, text, err)
	}
	return out
}

// furnish gives the actor room something of every kind, and makes two more.
func (r *rig) furnish() {
	r.Helper()
	ctx := r.Context()
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "note", Body: queue.Raw{0xa1, 0x61, 'a', 1}})
			_, err2 := tx.Enqueue(queue.Send{Name: "note", Body: queue.Raw{0xf9, 0x7e, 0x00}}) // NaN
			_, err3 := tx.Exec("create view w as select 1; insert into t values (x'00ff'), (2.0), (null), (9e999)")
			return errors.Join(err, err2, err3, tx.SetRawState([]byte{0x82, 0x01, 0x41, 0x02}), tx.Label("city", "Rome=Roma"), tx.Put([]byte("z"), nil))
		})
	})
	for _, name := range []string{"rome", "x/y z"} {
		r.actor(name, func(a *greenroom.Actor) error {
			return a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) })
		})
	}
}

// TestReads: what is stored is answered in words, in pages.
func TestReads(t *testing.T) {
	r := newRig(t, admin.Options{})
	r.furnish()
	var names []string
	for path := "/v1/actors?limit=2&order=name"; path != ""; {
		page := get[admin.ActorList](r, path)
		for _, a := range page.Actors {
			names = append(names, *a.Name)
		}
		if path = ""; page.Next != "" {
			path = "/v1/actors?limit=2&order=name&after=" + url.QueryEscape(page.Next)
		}
	}
	if want := []string{"rome", "room", "x/y z"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the actors are %q", names)
	}
	for query, want := range map[string]int{
		"label=city%3DRome%3DRoma": 1, "label=city%3DRome": 0, "prefix=ro": 2, "stuck=true": 0, "state=failed&state=sleeping": 0,
		"schema_below=1": 0, "wakes_before=2026-05-04T10:11:12Z": 1, "slept_before=2026-05-04T10:11:12.5%2B02:00": 0, "": 3,
	} {
		if got := get[admin.ActorList](r, "/v1/actors?"+query); len(got.Actors) != want || got.Actors == nil {
			t.Errorf("%s: %+v", query, got)
		}
	}
	one := get[admin.Actor](r, "/v1/actors/room")
	if byID := get[admin.Actor](r, "/v1/actors/id:"+one.ID); !reflect.DeepEqual(one, byID) || one.Labels["city"] != "Rome=Roma" || one.Size == 0 || len(one.Created) != 24 {
		t.Errorf("the actor is %+v, by its id %+v", one, byID)
	}
	if odd := get[admin.Actor](r, "/v1/actors/x%2Fy%20z"); *odd.Name != "x/y z" {
		t.Errorf("the actor is %+v", odd)
	}
	var keys []string
	for path := "/v1/actors/room/keys?prefix=user/&limit=1"; path != ""; {
		page := get[admin.KeyList](r, path)
		for _, k := range page.Keys {
			keys = append(keys, k.Key)
		}
		if path = ""; page.Next != "" {
			path = "/v1/actors/room/keys?prefix=user/&limit=1&after=" + page.Next
		}
	}
	if want := []string{"user/k", "user/z"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("the keys are %q", keys)
	}
	key := get[admin.KeyList](r, "/v1/actors/room/keys?prefix=user/&limit=1").Keys[0]
	if one := get[admin.KeyList](r, "/v1/actors/room/keys?key="+key.Hex); len(one.Keys) != 1 || one.Keys[0].Key != "user/k" || string(one.Keys[0].Value) != "v" || key.Value != nil || one.Next != "" {
		t.Errorf("the key %s is %+v", key.Hex, one)
	}
	if none := get[admin.KeyList](r, "/v1/actors/room/keys?key="+key.Hex+"00"); len(none.Keys) != 0 {
		t.Errorf("a key that isn't there is %+v", none)
	}
	if s := get[admin.State](r, "/v1/actors/room/state"); string(s.State) != `[1,"Ag=="]` || s.Events == nil {
		t.Errorf("the state is %s, %+v", s.State, s)
	}
	messages := get[admin.MessageList](r, "/v1/actors/room/queue?name=note&limit=1")
	if m := messages.Messages; len(m) != 1 || string(m[0].Body) != `{"a":1}` || *m[0].Name != "note" || *m[0].State != "ready" || m[0].Until != nil || messages.Next != *m[0].ID {
		t.Errorf("the queue has %+v", messages)
	}
	messages = get[admin.MessageList](r, "/v1/actors/room/queue?after="+messages.Next.String())
	if m := messages.Messages; len(m) != 1 || string(m[0].Body) != "null" || m[0].CBOR != "f97e00" || messages.Next != 0 {
		t.Errorf("the next page has %+v", messages)
	}
	if c := get[admin.ConnectionList](r, "/v1/actors/room/connections"); c.Connections == nil || len(c.Connections) != 0 {
		t.Errorf("the connections are %+v", c)
	}
	if tr := get[admin.TraceList](r, "/v1/actors/room/traces?status=error&since=2026-05-04T00:00:00Z"); tr.Spans != 0 || !json.Valid(tr.OTLP) {
		t.Errorf("the traces are %s", tr.OTLP)
	}
	if s := get[admin.Schema](r, "/v1/actors/room/schema"); len(s.Tables) != 2 || s.Tables[0].Name != "t" || s.Tables[1].Type != "view" || *s.Tables[1].SQL != "CREATE VIEW w as select 1" {
		t.Errorf("the schema is %+v", s)
	}
	if h := get[admin.HostList](r, "/v1/hosts"); h.Hosts == nil {
		t.Errorf("the hosts are %+v", h)
	}
}

// TestQuery: a query is answered on one state, within bounds.
func TestQuery(t *testing.T) {
	r := newRig(t, admin.Options{})
	r.furnish()
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"sql":"select a from t"}`, 200, `{"columns":["a"],"rows":[[1],["X'00FF'"],[2.0],[null],[9.0e+999]],"more":false}`},
		{`{"sql":"select a, ?, ? from t","args":[9007199254740993,"<y>"],"rows":1}`, 200, `{"columns":["a","?","?"],"rows":[[1,9007199254740993,"<y>"]],"more":true}`},
		{`{"sql":"select 1 where 0"}`, 200, `{"columns":["1"],"rows":[],"more":false}`},
		{`{"sql":"select zeroblob(2000000) from t"}`, 200, `"more":true}`},
		{`{"sql":"delete from t"}`, 400, `only what reads`},
		{`{"sql":"attach 'file:x?vfs=os' as x"}`, 400, `only what reads`},
		{`{"sql":"selec"}`, 400, `syntax error`},
		{`{"sql":"select ?","args":[{}]}`, 400, `argument 1`},
		{`{"sql":"select 1","rows":1001}`, 400, `up to 1000`},
		{`{"sql":"select 1","row":1}`, 400, `unknown field`},
		{`{"sql":"select zeroblob(5000000)"}`, 413, `too big`},
		{`{"sql":"select zeroblob(3000000), zeroblob(3000000)"}`, 413, `too_large`},
	} {
		status, text := r.ask(http.MethodPost, "/v1/actors/room/query", test.body)
		if text = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(text); status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: %d %.300s", test.body, status, text)
		}
	}
	if status, text := r.ask(http.MethodPost, "/v1/actors/nix/query", `{"sql":"select 1"}`); status != 404 {
		t.Errorf("an actor that doesn't exist: %d %s", status, text)
	}
	if n := r.count(); n != 5 {
		t.Errorf("there are %d rows", n)
	}
}

// TestQueryTimeout: a query may ask for less time than the process allows, and for no more. An actor without a database is an error that says so.
func TestQueryTimeout(t *testing.T) {
	r := newRig(t, admin.Options{QueryDeadline: 100 * time.Millisecond})
	r.furnish()
	const endless = "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c"
	for _, ms := range []int{0, 1, math.MaxInt} {
		_, err := r.client.Query(t.Context(), "room", &admin.QueryIn{SQL: endless, Timeout: ms})
		if e := (*admin.Error)(nil); !errors.As(err, &e) || e.Code != "timeout" {
			t.Errorf("%d ms: %v", ms, err)
		}
	}
	_, err := r.client.Query(t.Context(), "room", &admin.QueryIn{SQL: "select 1", Timeout: -1})
	if e := (*admin.Error)(nil); !errors.As(err, &e) || e.Code != "invalid" {
		t.Errorf("-1 ms: %v", err)
	}
	_, err = r.client.Query(t.Context(), "rome", &admin.QueryIn{SQL: "select 1"})
	_, serr := admin.Get[admin.Schema](t.Context(), r.client, "actors/rome/schema", nil)
	for _, err := range []error{err, serr} {
		if !errors.Is(err, greenroom.ErrNotFound) {
			t.Errorf("without a database: %v", err)
		}
	}
}

// TestQueriesAtOnce: a query waits while as many run as may, and is overloaded when its time is over.
func TestQueriesAtOnce(t *testing.T) {
	r := newRig(t, admin.Options{QueryDeadline: time.Millisecond})
	done := admin.FillQueries()
	status, text := r.ask(http.MethodPost, "/v1/actors/room/query", `{"sql":"select 1"}`)
	done()
	if status != http.StatusServiceUnavailable || !strings.Contains(text, `"overloaded"`) {
		t.Errorf("%d %s", status, text)
	}
	long := newRig(t, admin.Options{})
	for range 10 { // each gives its place back
		if status, text := long.ask(http.MethodPost, "/v1/actors/room/query", `{"sql":"select 1"}`); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
}

// TestBadReads: what makes no sense is refused with a reason.
func TestBadReads(t *testing.T) {
	r := newRig(t, admin.Options{})
	for path, code := range map[string]string{
		"/v1/actors?limit=0": "invalid", "/v1/actors?limit=1001": "invalid", "/v1/actors?limit=x": "invalid", "/v1/actors?limit=1&limit=2": "invalid",
		"/v1/actors?state=nix": "invalid", "/v1/actors?order=nix": "invalid", "/v1/actors?label=x": "invalid", "/v1/actors?label=a%3D1&label=a%3D2": "invalid",
		"/v1/actors?stuck=1": "invalid", "/v1/actors?schema_below=-1": "invalid", "/v1/actors?wakes_before=yesterday": "invalid", "/v1/actors?slept_before=0001-01-01T00:00:00Z": "invalid", "/v1/actors?after=%ff": "invalid",
		"/v1/actors?nix=1": "invalid", "/v1/actors?%zz": "invalid",
		"/v1/actors/nix": "not_found", "/v1/actors/id:zz": "invalid", "/v1/actors/nix/keys": "not_found", "/v1/actors/room/keys?after=x": "invalid", "/v1/actors/room/keys?key=x": "invalid",
		"/v1/actors/room/state": "not_found", "/v1/actors/room/workflow": "not_found", "/v1/actors/room/queue?after=x": "invalid", "/v1/actors/room/queue?limit=-1": "invalid",
		"/v1/actors/room/connections?after=hex:z": "invalid", "/v1/actors/room/traces?trace=1": "invalid", "/v1/actors/room/traces?after=x": "invalid", "/v1/actors/room/workflow?after=x": "invalid", "/v1/actors/room/traces?status=bad": "invalid",
		"/v1/actors/room/traces?attribute=x": "invalid", "/v1/actors/room/traces?attribute=a%3D1&attribute=a%3D2": "invalid", "/v1/actors/room/traces?events=-1": "invalid",
		"/v1/metrics": "not_found",
	} {
		status, text := r.ask(http.MethodGet, path, "")
		var e admin.Error
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Code != code || e.Message == "" || status/100 != 4 {
			t.Errorf("GET %s: %d %s, %v", path, status, text, err)
		}
	}
}

// TestGetDatabase: a database is copied as a file, which can be made the database of another actor.
func TestGetDatabase(t *testing.T) {
	r := newRig(t, admin.Options{})
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	status, file := r.ask("GET", "/v1/actors/room/database", "")
	if status != http.StatusOK || !strings.HasPrefix(file, "SQLite format 3\x00") {
		t.Fatalf("%d, %.100q", status, file)
	}
	if err := r.client.ImportDatabase(t.Context(), "other", true, strings.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	r.actor("other", func(a *greenroom.Actor) error {
		var n int
		err := a.SQL().QueryRow("select a from t").Scan(&n)
		if n != 1 {
			t.Errorf("the copy has %d", n)
		}
		return err
	})
	r.actor("empty", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) })
	})
	for _, actor := range []string{"empty", "nothing"} {
		if status, text := r.ask("GET", "/v1/actors/"+actor+"/database", ""); status != http.StatusNotFound {
			t.Errorf("%s: %d, %.100s", actor, status, text)
		}
	}
	left, err := os.ReadDir(temp)
	for deadline := time.Now().Add(testkit.Patience(10 * time.Second)); err == nil && len(left) > 0 && time.Now().Before(deadline); {
		runtime.Gosched() // the server removes a copy when it has sent the last of it
		left, err = os.ReadDir(temp)
	}
	if err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
}
