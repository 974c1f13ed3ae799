package inspector_test

import (
	"errors"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
)

// do sends a form of the page, as a browser with the cookie c does.
func (r *rig) do(c *http.Cookie, path string, form ...string) (int, string) {
	r.Helper()
	values := url.Values{"back": {"/actors"}}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	resp, body := r.send(http.MethodPost, path, values, http.Header{"Cookie": {c.Name + "=" + c.Value}, "Origin": {r.url}})
	if resp.StatusCode == http.StatusSeeOther && resp.Header.Get("Location") != "/actors" {
		r.Errorf("%s leads to %s", path, resp.Header.Get("Location"))
	}
	return resp.StatusCode, body
}

// cell is the form that sets a value of the table t.
func cell(rowid, column, kind, value string) []string {
	return []string{"table", "t", "key", "rowid", "rowid", rowid, "column", column, "kind", kind, "value", value}
}

// done is the status of a form that was done.
const done = http.StatusSeeOther

// A verbTest is a form, with the status of its answer, and what a view has afterwards.
type verbTest struct {
	verb   string
	form   []string
	status int
	view   string // that shows it
	want   string
}

// verbTests are forms, one after the other, on an actor that furnish has made.
var verbTests = []verbTest{
	{"label", []string{"key", "color", "value", "red"}, done, "", "color=red"},
	{"send", []string{"name", "greeting", "body", `{"a":1}`}, done, "/queue", "<bdi>greeting</bdi>"},
	{"send", []string{"name", "later", "body", "null", "delay", "1h"}, done, "/queue", "delayed"},
	{"send", []string{"name", "x", "body", "{"}, http.StatusBadRequest, "/queue", "greeting"},
	{"send", []string{"name", "x", "body", "1", "delay", "soon"}, http.StatusBadRequest, "/queue", "greeting"},
	{"send", []string{"name", "x", "body", "1", "delay", "-5s"}, http.StatusBadRequest, "/queue", "greeting"},
	{"delete", []string{"id", "1"}, done, "/queue", "greeting"},
	{"delete", []string{"id", "x"}, http.StatusBadRequest, "/queue", "greeting"},
	{"redrive", nil, done, "/queue", "greeting"},
	{"cell", cell("1", "c", "text", "it's \"new\"\r\nline"), done, "/tables/t", "it&#39;s &#34;new&#34;⏎line"},
	{"cell", cell("1", "n", "integer", "-5"), done, "/tables/t", "<bdi>-5</bdi>"},
	{"cell", cell("2", "n", "real", "1e300"), done, "/tables/t", "<bdi>1e&#43;300</bdi>"},
	{"cell", cell("2", "b", "blob", "x'0aff'"), done, "/tables/t", "X&#39;0AFF&#39;"},
	{"cell", cell("1", "b", "null", ""), done, "/tables/t", `<td class="null">`},
	{"cell", cell("1", "n", "integer", "5x"), http.StatusBadRequest, "/tables/t", "-5"},
	{"cell", cell("1", "n", "real", "NaN"), http.StatusBadRequest, "/tables/t", "-5"},
	{"cell", cell("1", "b", "blob", "0"), http.StatusBadRequest, "/tables/t", "-5"},
	{"cell", cell("1", "b", "number", "0"), http.StatusBadRequest, "/tables/t", "-5"},
	{"cell", cell("9", "n", "integer", "5"), http.StatusConflict, "/tables/t", "-5"},
	{"cell", cell("1", "none", "integer", "5"), http.StatusBadRequest, "/tables/t", "-5"},
	{"cell", cell("1 or 1", "n", "integer", "5"), http.StatusBadRequest, "/tables/t", "-5"},
	{"state", []string{"state", `{"paid": true}`, "before", `{"state":["item",7,true,null,""]}`}, done, "/state", "<bdi>paid</bdi>"},
	{"state", []string{"state", `1`, "before", `{"state":["item",7,true,null,""]}`}, http.StatusConflict, "/state", "<bdi>paid</bdi>"},
	{"state", []string{"state", `{`}, http.StatusBadRequest, "/state", "<bdi>paid</bdi>"},
	{"state", []string{"state", `["sum", {"a/b": 1}]`, "before", `{"paid": true}`, "at", "/paid"}, done, "/state", "<bdi>a/b</bdi>"},
	{"state", []string{"state", `42`, "before", `{"paid":["sum",{"a/b":1}]}`, "at", "/paid/1/a~1b"}, done, "/state", "<bdi>42</bdi>"},
	{"state", []string{"state", `43`, "before", `{"paid":["sum",{"a/b":42}]}`, "at", "/paid/2"}, http.StatusBadRequest, "/state", "<bdi>42</bdi>"},
	{"state", []string{"state", `43`, "before", `{"paid":["sum",{"a/b":1}]}`, "at", "/paid/1"}, http.StatusConflict, "/state", "<bdi>42</bdi>"},
	{"retry", nil, done, "/workflow", `<span class="state sleeping">`},
	{"cancel", nil, done, "/workflow", `<span class="state cancelled">`},
	{"retry", nil, http.StatusConflict, "/workflow", `<span class="state cancelled">`},
	{"restart", nil, done, "/workflow", `<span class="state pending">`},
	{"wake", nil, http.StatusNotImplemented, "", "color=red"}, // no host runs the actor
	{"sleep", nil, http.StatusNotImplemented, "", "color=red"},
	{"disconnect", []string{"id", "x"}, http.StatusNotImplemented, "", "color=red"},
	{"replay", []string{"step", "x"}, http.StatusNotFound, "", "color=red"},
	{"nothing", nil, http.StatusNotFound, "", "color=red"},
}

// again matches the form that is shown after one that failed: its action, and a text that was typed.
var again = regexp.MustCompile(`(?s)<form class="card" method="post" action="([^"]*)">.*<textarea id="(?:value|body)" name="(?:value|body)" rows="6">\n(.*?)</textarea>`)

// TestTryAgain: a form that fails is shown again, with what was typed, and can be sent from there.
func TestTryAgain(t *testing.T) {
	r := newRig(t)
	r.furnish("room", content{steps: 1})
	at := r.path("room")
	writer := r.login(writeSecret)
	for _, tt := range []struct {
		path         string
		form         []string
		typed        string
		mended, want string
		view         string
	}{
		{at + "/do/send", []string{"name", "x", "body", "{<b>"}, "{&lt;b&gt;", "body", "[7]", "/queue"},
		{at + "/do/cell?table=t&column=n", []string{"key", "rowid", "rowid", "1", "kind", "integer", "value", "5\nx"}, "5\nx", "value", "55", "/tables/t"},
	} {
		_, body := r.do(writer, tt.path, tt.form...)
		m := again.FindStringSubmatch(body)
		if m == nil || html.UnescapeString(m[1]) != tt.path || m[2] != tt.typed || !strings.Contains(body, `<input type="hidden" name="back" value="/actors">`) {
			t.Errorf("%s: %q, %s", tt.path, m, body)
			continue
		}
		if status, _ := r.do(writer, html.UnescapeString(m[1]), append(tt.form, tt.mended, tt.want)...); status != done {
			t.Errorf("%s again: %d", tt.path, status)
		}
		if body := r.get(at + tt.view); !strings.Contains(body, tt.want) {
			t.Errorf("%s shows %s", tt.view, body)
		}
	}
	if _, body := r.do(writer, at+"/do/delete", "id", "x"); strings.Contains(body, `class="card"`) {
		t.Errorf("a form into which nothing was typed: %s", body)
	}
}

// TestVerbs: what a form does is done, for a token that may write; one that may read is refused each of them, and changes nothing.
func TestVerbs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.furnish("room", content{steps: 1})
	at := r.path("room")
	all := func() string {
		var b strings.Builder
		for _, view := range slices.Sorted(maps.Keys(views)) {
			if view != "/sql" {
				b.WriteString(view + r.get(at+view))
			}
		}
		return b.String()
	}
	reader, before := r.login(readSecret), all()
	for _, v := range verbTests {
		if status, _ := r.do(reader, at+"/do/"+v.verb, v.form...); status != http.StatusForbidden && v.verb != "nothing" {
			t.Errorf("a reader, %s %q: %d", v.verb, v.form, status)
		}
	}
	if status, body := r.do(reader, at+"/sql", "sql", "delete from t", "do", "write"); status != http.StatusForbidden || all() != before {
		t.Errorf("a reader's SQL: %d %s", status, body)
	}
	if body := r.get(at + "/queue"); strings.Contains(body, "<form class=\"filters\" method=\"post\"") {
		t.Error("a reader is shown what it may not do")
	}
	writer := r.login(writeSecret)
	for _, v := range verbTests {
		status, body := r.do(writer, at+"/do/"+v.verb, v.form...)
		if status != v.status {
			t.Errorf("%s %q: %d %s", v.verb, v.form, status, regexp.MustCompile(`role="alert">.*`).FindString(body))
		}
		if body := r.get(at + v.view); !strings.Contains(body, v.want) {
			t.Errorf("after %s %q: %s", v.verb, v.form, body)
		}
	}
	for sql, want := range map[string]string{
		"insert into t(n) values (77), (78)": "Rows changed: 2", "insert into t(n) values (79) returning n": "<td><bdi>79</bdi></td>", "selct": `role="alert"`,
		"attach 'file:x' as y": `role="alert"`, "with recursive c(x) as (select 1 union all select x+1 from c where x < 3000) insert into t(n) select -x from c returning n": "There are more rows",
	} {
		if status, body := r.do(writer, at+"/sql", "sql", sql, "do", "write", "form", "table"); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", sql, status, body)
		}
	}
	if status, body := r.do(writer, at+"/sql", "sql", "insert into t(n) with recursive c(x) as (select 1 union all select x+1 from c) select x from c", "do", "write"); status != http.StatusOK || !strings.Contains(body, "given up after 2 s") {
		t.Errorf("a statement without an end: %d %s", status, body)
	}
	if _, body := r.do(writer, at+"/sql", "sql", "select count(*) from t where n < -2000", "do", "run"); !strings.Contains(body, "<td><bdi>1000</bdi></td>") {
		t.Errorf("what was written beyond the rows that are shown: %s", body)
	}
}

// TestDeadLetter: a dead letter is shown with its error, and is a message again when its visitor says so.
func TestDeadLetter(t *testing.T) {
	r := newRig(t)
	r.actor("room", func(a *greenroom.Actor) error {
		q, err := a.Queue(t.Context())
		if err != nil {
			return err
		}
		_, err = q.Enqueue(t.Context(), queue.Send{Name: "job", Body: "work"})
		m, rerr := q.Receive(t.Context(), nil)
		if err = errors.Join(err, rerr); err != nil {
			return err
		}
		return q.Nack(t.Context(), m[0].Receipt(), 0, queue.Permanent(errors.New("<b>no paper</b>")))
	})
	at, writer := r.path("room"), r.login(writeSecret)
	if body := r.get(at + "/queue"); !strings.Contains(body, "&lt;b&gt;no paper&lt;/b&gt;") || !strings.Contains(body, "<bdi>job.dlq</bdi>") {
		t.Errorf("the page has no dead letter: %s", body)
	}
	if status, body := r.do(writer, at+"/do/redrive"); status != done {
		t.Errorf("%d %s", status, body)
	}
	if body := r.get(at + "/queue"); strings.Contains(body, "job.dlq") || !strings.Contains(body, "<bdi>job</bdi>") || !strings.Contains(body, `<span class="state ready">`) {
		t.Errorf("the page has no message: %s", body)
	}
}
