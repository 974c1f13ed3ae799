package inspector_test

import (
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
)

// exec makes an actor by statements of SQL, and returns its path.
func (r *rig) exec(name string, statements ...string) string {
	r.Helper()
	r.actor(name, func(a *greenroom.Actor) error {
		return a.Update(r.Context(), func(tx *greenroom.Tx) (err error) {
			for _, s := range statements {
				_, xerr := tx.Exec(s)
				err = errors.Join(err, xerr)
			}
			return err
		})
	})
	return r.path(name)
}

// Parts of a page with a form of a value.
var (
	formAction = regexp.MustCompile(`action="([^"]*/do/cell[^"]*)"`)
	formHidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	formKind   = regexp.MustCompile(`<option selected>([a-z]*)<`)
	formText   = regexp.MustCompile(`(?s)<textarea[^>]*>\n?([^<]*)</textarea>`)
)

// form returns the form of a value as a browser sends it: where to, and with which fields.
func (r *rig) form(path string, c *http.Cookie) (action string, fields []string) {
	r.Helper()
	_, body := r.send(http.MethodGet, path, nil, http.Header{"Cookie": {c.Name + "=" + c.Value}})
	at := formAction.FindStringSubmatch(body)
	if at == nil {
		r.Fatalf("%s has no form: %s", path, body)
	}
	lines := func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(html.UnescapeString(text), "\r\n", "\n"), "\n", "\r\n")
	}
	for _, m := range formHidden.FindAllStringSubmatch(body, -1) {
		if m[1] != "back" {
			fields = append(fields, m[1], lines(m[2]))
		}
	}
	fields = append(fields, "kind", formKind.FindStringSubmatch(body)[1], "value", lines(formText.FindStringSubmatch(body)[1]))
	return html.UnescapeString(at[1]), fields
}

// TestFormKeeps: a form that is sent as it was shown changes nothing, whatever the table is called.
func TestFormKeeps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	values := `insert into "%" (c) values (0.1+0.2), (9e999), (-9e999), (5e-324), (1.7976931348623157e308), (9223372036854775807), (-9223372036854775808), (x''), (x'00ff'), (''), ('a' || char(10) || 'b'), (char(10)), ('<&">' || char(0x202e)), (null)`
	writer := r.login(writeSecret)
	for i, name := range []string{"t", "..", ".", "~", "~~..", "a//b", "new\nline\r\n", "\u202e<b>", "%2e%2e", ""} {
		at := r.exec("room"+strconv.Itoa(i), `create table "`+name+`" (c collate nocase)`, strings.Replace(values, "%", name, 1))
		table := regexp.MustCompile(`href="(/actors/[^"]*/tables/[^"]*)"`).FindStringSubmatch(r.get(at + "/tables"))[1]
		before := r.get(table)
		if n := strings.Count(before, "<tr>"); n != 15 {
			t.Errorf("%q has %d rows", name, n)
		}
		for rowid := 1; rowid <= 14; rowid++ {
			action, fields := r.form(table+"/cell?column=c&rowid="+strconv.Itoa(rowid), writer)
			if status, body := r.do(writer, action, fields...); status != done {
				t.Errorf("%q, row %d, %q: %d %s", name, rowid, fields, status, body)
			}
		}
		if after := r.get(table); after != before {
			t.Errorf("%q: before %s\nafter %s", name, before, after)
		}
	}
}

// TestFormLate: a form doesn't replace a value that its visitor hasn't seen.
func TestFormLate(t *testing.T) {
	r := newRig(t)
	at := r.exec("room", "create table t (c collate nocase)", "insert into t values ('a'), (7)")
	writer := r.login(writeSecret)
	for rowid, late := range []string{1: "'A'", 2: "'7'"} {
		if rowid == 0 {
			continue
		}
		action, fields := r.form(at+"/tables/t/cell?column=c&rowid="+strconv.Itoa(rowid), writer)
		r.exec("room", "update t set c = "+late+" where rowid = "+strconv.Itoa(rowid))
		if status, body := r.do(writer, action, fields...); status != http.StatusConflict {
			t.Errorf("%s: %d %s", late, status, body)
		}
	}
	action, fields := r.form(at+"/tables/t/cell?column=c&rowid=1", writer)
	for i := 1; i < len(fields); i += 2 {
		if fields[i-1] == "before" {
			fields[i] = "text:x"
		}
	}
	if status, _ := r.do(writer, action, fields...); status != http.StatusBadRequest {
		t.Errorf("another before: %d", status)
	}
}

// TestStatePart: each part of a state has a link to a form of its own, which changes nothing if it is sent as it was shown.
func TestStatePart(t *testing.T) {
	r := newRig(t)
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			return greenroom.SetState(tx, map[string]any{"a/b~": []any{1, map[string]any{"": "x\ny", "<&\">": nil}}, strings.Repeat("k", 2000): 2})
		})
	})
	at, writer, reader := r.path("room")+"/state", r.login(writeSecret), r.login(readSecret)
	page := func(query string, c *http.Cookie) string {
		t.Helper()
		_, body := r.send(http.MethodGet, at+query, nil, http.Header{"Cookie": {c.Name + "=" + c.Value}})
		return body
	}
	link := regexp.MustCompile(`href="(\?edit=[^"]*)#state"`)
	if body := page("", reader); link.MatchString(body) {
		t.Errorf("a reader may edit: %s", body)
	}
	before := page("", writer)
	links := link.FindAllStringSubmatch(before, -1)
	if len(links) != 5 { // the list, its parts, and those of the object; the one with the long name has none
		t.Fatalf("%d links: %q", len(links), links)
	}
	var texts []string
	for _, m := range links {
		body := page(html.UnescapeString(m[1]), writer)
		var fields []string
		for _, m := range formHidden.FindAllStringSubmatch(body, -1) {
			if m[1] != "back" {
				fields = append(fields, m[1], html.UnescapeString(m[2]))
			}
		}
		text := html.UnescapeString(formText.FindStringSubmatch(body)[1])
		texts = append(texts, text)
		if status, body := r.do(writer, strings.TrimSuffix(at, "/state")+"/do/state", append(fields, "state", text)...); status != done {
			t.Errorf("%s: %d %s", m[1], status, body)
		}
	}
	if want := []string{"1", `"x\ny"`, "null"}; !slices.Equal(slices.DeleteFunc(texts, func(s string) bool { return strings.ContainsAny(s, "[{") }), want) {
		t.Errorf("the forms have %q", texts)
	}
	if after := page("", writer); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
	for _, gone := range []string{"x", "/none", "/a~1b~0/2", "/a~1b~0/1//deep"} {
		if body := page("?edit="+url.QueryEscape(gone), writer); !strings.Contains(body, "State, in JSON") {
			t.Errorf("%s: %s", gone, body)
		}
	}
}

// TestCellNUL: a value is shown beyond a NUL in it.
func TestCellNUL(t *testing.T) {
	r := newRig(t)
	at := r.exec("room", "create table t (c)", "insert into t values (cast(x'610062' as text))")
	if body := r.get(at + "/tables/t/cell?column=c&rowid=1"); !strings.Contains(body, `<bdi>a\x00b</bdi>`) {
		t.Errorf("the page is %s", body)
	}
}

// TestBrokenView: a view of a table that isn't there takes no more from the console than the names of its columns.
func TestBrokenView(t *testing.T) {
	r := newRig(t)
	at := r.exec("room", "create table good (inner_column)", "create view broken as select c from nowhere")
	if body := r.get(at + "/sql"); !strings.Contains(body, `["broken","good","inner_column"`) {
		t.Errorf("the console is %s", body)
	}
}

// TestLongSchema: a database whose schema has a statement longer than those of tools may be is shown.
func TestLongSchema(t *testing.T) {
	r := newRig(t)
	at := r.exec("room", "create table t (c /* "+strings.Repeat("long ", 40_000)+" */)", "insert into t values ('cell')")
	for _, view := range []string{"/tables", "/tables/t", "/sql"} {
		r.get(at + view)
	}
	if body := r.get(at + "/tables/t"); !strings.Contains(body, "<bdi>cell</bdi>") {
		t.Errorf("the table is %s", body)
	}
}

// TestFilterUntyped: a column without a type may have a number, and the same digits as a text, and a filter finds both.
func TestFilterUntyped(t *testing.T) {
	r := newRig(t)
	at := r.exec("room", "create table t (id integer primary key, c, b blob, n int)", "insert into t values (1, '7', '7', '7'), (2, 7, 7, 7), (3, 8, x'37', null)")
	for column, want := range map[string]string{"c": "1 2", "b": "1 2", "n": "1 2"} {
		got := r.pages(at+"/tables/t?"+url.Values{"column": {column}, "test": {"="}, "value": {"7"}}.Encode(), 0)
		if strings.Join(got, " ") != want {
			t.Errorf("%s = 7: %q, want %s", column, got, want)
		}
	}
}

// TestHostileTypes: types of columns, names in labels of links, and errors are shown as text, for a visitor that may write as well.
func TestHostileTypes(t *testing.T) {
	r := newRig(t)
	const bad = "\u202e<b>"
	at := r.exec("room", "create table t (\"c"+bad+"\" \""+bad+strings.Repeat("long", 5000)+"\")", "insert into t values (1)")
	writer := r.login(writeSecret)
	cookie := http.Header{"Cookie": {writer.Name + "=" + writer.Value}, "Origin": {r.url}}
	for path, form := range map[string]url.Values{
		at + "/tables/t": nil, at + "/tables/t?sort=" + url.QueryEscape(bad): nil, "/nothing" + url.PathEscape(bad): nil, at + "/tables/" + url.PathEscape(bad): nil,
		at + "/sql": {"sql": {`select * from "` + bad + `"`}}, at + "/do/cell": {"table": {bad}, "rowid": {"1"}, "key": {"rowid"}, "column": {"c"}, "kind": {"null"}},
	} {
		method := http.MethodGet
		if form != nil {
			method = http.MethodPost
		}
		_, body := r.send(method, path, form, cookie)
		body = forms.ReplaceAllString(body, "")
		if i := strings.Index(body, "\u202e"); i >= 0 || strings.Contains(body, "<b>") || len(body) > 10_000 || !strings.Contains(body, `\u202e`) {
			t.Errorf("%s: %d bytes, %q", path, len(body), body[max(0, i-100):min(len(body), max(0, i)+50)])
		}
	}
}

// TestDeep: a value that is nested deeply takes no more memory than any other, and one that looks so is indented.
func TestDeep(t *testing.T) {
	r := newRig(t)
	const depth = 9000
	show := func(value string) func() string {
		r.actor("room", func(a *greenroom.Actor) error {
			return a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte(value)) })
		})
		path := r.path("room") + keyLink.FindString(r.get(r.path("room")+"/keys?prefix=user%2F"))
		return func() string { return r.get(path) }
	}
	deep := show(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	deep()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Errorf("a key of %d bytes takes %d bytes to show", 2*depth, took)
	}
	const flat = `{"a":"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[","b":[1]}`
	if body := show(flat)(); !strings.Contains(body, "&#34;b&#34;: [\n    1\n  ]") {
		t.Errorf("%s is shown as %s", flat, body)
	}
}

// TestHuge: a value that is too large to be read hides no other row and no other value, and has a size.
func TestHuge(t *testing.T) {
	r := newRig(t)
	at := r.exec("room", "create table t (id integer primary key, c, d)", "insert into t values (1, 'one', 1), (2, printf('%.*c', 5000000, 'x'), 'beside'), (3, zeroblob(6000000), 3), (4, printf('%.*c', 4194304, 'y'), 4)")
	body := r.get(at + "/tables/t")
	for _, want := range []string{"<bdi>one</bdi>", "<bdi>beside</bdi>", ">4.77 MiB</a>", ">5.72 MiB</a>", "<bdi>yyyy", ">4 MiB</a>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the table has no %s: %s", want, body)
		}
	}
	for rowid, want := range map[string]string{"2": "text, 4.77 MiB: too large", "3": "blob, 5.72 MiB: too large", "4": "text, 4 MiB, of which the first 64 KiB"} {
		if body := r.get(at + "/tables/t/cell?column=c&rowid=" + rowid); !strings.Contains(body, want) || len(body) > 200_000 {
			t.Errorf("row %s: %d bytes, %.3000s", rowid, len(body), body)
		}
	}
}

// TestColumns: a table with more columns than are shown says so, also if most of them are its key.
func TestColumns(t *testing.T) {
	r := newRig(t)
	names := make([]string, 1500)
	for i := range names {
		names[len(names)-1-i] = "c" + strconv.Itoa(i)
	}
	all := strings.Join(names, ",")
	at := r.exec("room", "create table plain ("+all+")", "insert into plain(c1) values (1)", "create table keyed ("+all+", primary key ("+strings.Join(names[300:], ",")+","+names[0]+")) without rowid")
	if body := r.get(at + "/tables/plain"); !strings.Contains(body, "more columns than are shown") || strings.Count(body, "<td") != 900 {
		t.Errorf("%d values: %.3000s", strings.Count(body, "<td"), body)
	}
	if resp, body := r.send(http.MethodGet, at+"/tables/keyed", nil, bearer(readSecret)); !strings.HasSuffix(body, "</html>\n") {
		t.Errorf("%s: %.3000s", resp.Status, body)
	}
}

// TestKeyCounts: a level of the tree of keys that goes on says so.
func TestKeyCounts(t *testing.T) {
	r := newRig(t)
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) (err error) {
			for i := range 1200 {
				err = errors.Join(err, tx.Put([]byte(strconv.Itoa(10_000+i)), nil))
			}
			return err
		})
	})
	at := r.path("room") + "/keys"
	body := r.get(at)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(body)
	if next == nil || !strings.Contains(body, ">1000 or more</td>") {
		t.Fatalf("the first page is %s", body)
	}
	if body := r.get(at + html.UnescapeString(next[1])); !strings.Contains(body, ">200</td>") {
		t.Errorf("the second page is %s", body)
	}
}

// TestErrorTab: an error is shown below the part of the actor that was asked for.
func TestErrorTab(t *testing.T) {
	r := newRig(t)
	r.make("room")
	_, body := r.send(http.MethodGet, r.path("room")+"/tables/nothing", nil, bearer(readSecret))
	if got := regexp.MustCompile(`aria-current="page">(\w+)<`).FindAllStringSubmatch(body, -1); len(got) != 1 || got[0][1] != "Tables" {
		t.Errorf("the tabs are %q", got)
	}
}
