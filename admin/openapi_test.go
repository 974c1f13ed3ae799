package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/workflow"
)

// answers holds what a store answers against the schemas of a document.
type answers struct {
	*rig
	doc      *openapi3.T
	answered map[string]bool // METHOD PATH of what was answered with 200
}

// hold asks for path of an actor, and holds the request and the answer, whose status must be want, against the schemas.
func (a *answers) hold(method, path, actor, query, body string, want int) {
	a.Helper()
	op := a.doc.Paths.Value(path).GetOperation(method)
	if op.RequestBody != nil {
		var in any
		err := json.Unmarshal([]byte(body), &in)
		if err == nil {
			err = op.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(in)
		}
		if err != nil {
			a.Errorf("%s %s: the request %s: %v", method, path, body, err)
		}
	}
	status, text := a.ask(method, strings.ReplaceAll(path, "{actor}", actor)+query, body)
	resp := op.Responses.Default()
	if status == http.StatusOK {
		resp = op.Responses.Status(status)
		a.answered[method+" "+path] = true
	}
	if status != want {
		a.Errorf("%s %s: %d %s", method, path, status, text)
	}
	media := resp.Value.Content.Get("application/json")
	if media == nil { // it is text
		return
	}
	var out any
	err := json.Unmarshal([]byte(text), &out)
	if err == nil {
		err = media.Schema.Value.VisitJSON(out)
	}
	if err != nil {
		a.Errorf("%s %s: %v", method, path, err)
	}
}

// elsewhere are requests that take a host, see TestAwake, or a backup, see cmd/greenroom.TestHostBackup.
var elsewhere = map[string]string{
	"wake": `{}`, "sleep": `{}`, "connections/disconnect": `{"id":"x"}`,
	"restore": `{"bookmark":"00000000-1-1","to":"x"}`, "undo": `{"bookmark":"00000000-1-1","wake":true}`,
}

// complete fails the test for what was not asked for. actor is the path of an actor.
func (a *answers) complete(actor string) {
	a.Helper()
	for path, item := range a.doc.Paths.Map() {
		for method := range item.Operations() {
			switch path {
			case actor + "workflow/retry", actor + "workflow/replay", actor + "connections/discard", actor + "database":
				continue // a success needs a step that failed, damage, or a file: their answer is empty, as that of the others
			}
			if !a.answered[method+" "+path] {
				a.Errorf("%s %s isn't tried", method, path)
			}
		}
	}
}

// TestAnswers: what a small store answers is of the schemas of the document that is served, and has no field that isn't in them.
func TestAnswers(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })
	r := newRig(t, admin.Options{Metrics: page})
	r.furnish()
	_, text := r.ask(http.MethodGet, "/v1/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Components.Schemas {
		no := false
		s.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	}
	answers := &answers{r, doc, map[string]bool{}}
	hold := answers.hold
	for path, item := range doc.Paths.Map() {
		if path == "/v1/events" { // which ends with the process; see TestEvents
			hold(http.MethodGet, path, "", "?actor=", "", http.StatusBadRequest)
			answers.answered["GET "+path] = true
			continue
		}
		if item.Get != nil {
			want := http.StatusOK
			if strings.HasSuffix(path, "/workflow") {
				want = http.StatusNotFound
			}
			hold(http.MethodGet, path, "room", "", "", want)
			if strings.Contains(path, "{actor}") {
				hold(http.MethodGet, path, "nix", "", "", http.StatusNotFound)
			}
		}
	}
	const actor = "/v1/actors/{actor}/"
	hold(http.MethodPost, actor+"query", "room", "", `{"sql":"select *, 'x', ? from t where a < 9e999 or a is null","args":[null]}`, 200)
	hold(http.MethodPost, actor+"query", "room", "", `{"sql":"nix"}`, 400)
	hold(http.MethodPost, actor+"keys/put", "room", "", `{"key":"a","value":"dg=="}`, 200)
	hold(http.MethodPost, actor+"keys/delete", "room", "", `{"keys":["a"]}`, 200)
	hold(http.MethodPost, actor+"labels", "room", "", `{"labels":{"customer":"42"}}`, 200)
	hold(http.MethodPost, actor+"migrate", "room", "", `{"migrations":[{"version":7,"name":"pins","sql":"alter table t add column pinned"}]}`, 200)
	hold(http.MethodPost, actor+"migrate", "room", "", `{"migrations":[]}`, 500)
	hold(http.MethodPost, actor+"migrate", "room", "", `{"migrations":[{"version":8,"sql":" "}]}`, 400)
	hold(http.MethodPost, actor+"state/set", "room", "", `{"state":1}`, 501) // it has bytes
	r.actor("plain", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error { return greenroom.SetState(tx, 7) })
	})
	hold(http.MethodPost, actor+"state/set", "plain", "", `{"state":[1]}`, 200)
	hold(http.MethodPost, "/v1/index/repair", "", "", `{}`, 200)
	hold(http.MethodPost, actor+"queue/send", "new", "?create=true", `{"name":"n","body":{"x":[null,1.5]}}`, 200)
	hold(http.MethodPost, actor+"queue/delete", "new", "", `{"ids":[77]}`, 200)
	hold(http.MethodPost, actor+"queue/redrive", "new", "", `{}`, 200)
	hold(http.MethodPost, actor+"fork", "room", "", `{"to":"copy"}`, 200)
	hold(http.MethodPost, actor+"drop", "copy", "", `{}`, 200)
	r.actor("order", func(a *greenroom.Actor) error {
		_, err := greenroom.RunWorkflow(t.Context(), a, func(c *workflow.Context, what string) (string, error) {
			return workflow.Step(c, "ship", func(context.Context) (string, error) { return what, nil })
		}, "book")
		return err
	})
	hold(http.MethodGet, actor+"workflow", "order", "", "", 200)
	hold(http.MethodPost, actor+"workflow/restart", "order", "", `{}`, 200)
	hold(http.MethodPost, actor+"workflow/cancel", "order", "", `{}`, 200)
	for _, verb := range []string{"workflow/retry", "workflow/replay", "connections/discard"} {
		body := `{}`
		if verb == "workflow/replay" {
			body = `{"step":"nix"}`
		}
		status, text := r.ask(http.MethodPost, strings.ReplaceAll(actor+verb, "{actor}", "order"), body)
		if status < 400 || !strings.Contains(text, `"code"`) {
			t.Errorf("%s: %d %s", verb, status, text)
		}
	}
	for verb, body := range elsewhere {
		hold(http.MethodPost, actor+verb, "room", "", body, http.StatusNotImplemented)
		answers.answered["POST "+actor+verb] = true
	}
	answers.complete(actor)
}
