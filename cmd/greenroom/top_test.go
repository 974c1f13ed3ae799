package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestTop: what actors use is listed while they are awake, and the same when they sleep and the store is closed.
func TestTop(t *testing.T) {
	store := filepath.Join(t.TempDir(), "data")
	p := startHost(t, "", "--demo", store)
	for range 3 {
		post(t, p.url+"/actors/counter/lobby/actions/add", "2", 200)
	}
	for _, key := range []string{"lobby", "lobby", "hall"} {
		post(t, p.url+"/actors/counter/"+key+"/actions/add", `"x"`, 400)
	}
	post(t, p.url+"/actors/chat/lobby/actions/say", `{"name":"Ann","text":"hello"}`, 200)
	post(t, p.url+"/actors/chat/lobby/actions/history", "0", 200)
	type row struct {
		Name, Type, ID, Awake, Code, Place, Last string
		Actors, Turns, Failed, Written, Rows     int64
		Count                                    int64
	}
	top := func(args ...string) (rows []row) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, append([]string{"top", store, "--json"}, args...)...)), &rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	look := func(when string) {
		t.Helper()
		rows := top("--by", "rows")
		if len(rows) != 3 || rows[0].Name != "chat/lobby" || rows[0].Rows == 0 || rows[0].Written == 0 {
			t.Errorf("%s: %+v", when, rows)
		}
		rows = top("--named", "counter/lobby")
		if len(rows) != 1 || rows[0].Turns != 5 || rows[0].Failed != 2 {
			t.Errorf("%s: the counter: %+v", when, rows)
		}
		if rows = top("--limit", "1"); len(rows) != 1 || rows[0].Name != "counter/lobby" {
			t.Errorf("%s: the first: %+v", when, rows)
		}
		rows = top("--types", "--by", "failed")
		if len(rows) != 2 || rows[0].Type != "counter" || rows[0].Actors != 2 || rows[0].Failed != 3 || rows[1].Type != "chat" {
			t.Errorf("%s: types: %+v", when, rows)
		}
		rows = top("--failures")
		if len(rows) != 1 || rows[0].Type != "counter" || rows[0].Place != "actor.action.add" || rows[0].Code != "bad_arguments" || rows[0].Count != 3 || rows[0].Last == "" {
			t.Errorf("%s: failures: %+v", when, rows)
		}
	}
	look("awake")
	if got := fetch(t, p.url+"/metrics"); !strings.Contains(got, `greenroom_host_turns_failed_total{action="add",turn="action",type="counter",version=""} 3`) || !strings.Contains(got, `greenroom_host_rows_read_total{type="chat"}`) {
		t.Errorf("/metrics doesn't tell what types use: %s", got)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	look("asleep")
	for _, args := range [][]string{{"--by", "x"}, {"--types", "--failures"}, {"--limit", "-1"}} {
		if r := program(t.Context(), strings.NewReader(""), append([]string{"top", store}, args...)...); r.code != serving.ExitUsage {
			t.Errorf("%q: status %d: %s", args, r.code, r.stderr)
		}
	}
}

// post calls an action, whose answer must have a status.
func post(t *testing.T, url, body string, status int) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != status {
		t.Fatalf("%s: %s, %v: %s", url, resp.Status, err, text)
	}
}
