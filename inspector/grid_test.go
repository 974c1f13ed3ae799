package inspector_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
)

// tables makes an actor with tables of several kinds.
func (r *rig) tables(name string, rows int) string {
	r.Helper()
	r.actor(name, func(a *greenroom.Actor) error {
		return a.Update(r.Context(), func(tx *greenroom.Tx) (err error) {
			for _, text := range []string{
				`create table plain (id integer primary key, "a b" text, n)`, `create table keyed (k text, v, primary key (k)) without rowid`,
				`create table odd (rowid text, _rowid_ int)`, `create view half as select id, n from plain where id % 2 = 0`,
				`create view endless as with recursive c(x) as (select 1 union all select x + 1 from c) select x from c where x < 0`,
				fmt.Sprintf(`with recursive c(x) as (select 1 union all select x + 1 from c where x < %d) insert into plain select x, 'row ' || x, -x from c`, rows),
				`insert into keyed select 'k' || printf('%05d', id), id from plain`, `insert into odd select 'r' || id, id from plain`,
			} {
				_, xerr := tx.Exec(text)
				err = errors.Join(err, xerr)
			}
			return err
		})
	})
	return r.path(name) + "/tables/"
}

// cells matches the first cell of a row behind its rowid.
var cells = regexp.MustCompile(`<tbody><tr>|\n<tr>`)

// pages returns the texts of a column of all rows of a table, page by page.
func (r *rig) pages(path string, column int) (texts []string) {
	r.Helper()
	next := regexp.MustCompile(`<a rel="next" href="([^"]*)">`)
	base, query, _ := strings.Cut(path, "?")
	for n := 0; ; n++ {
		body := r.get(base + "?" + query)
		for _, row := range cells.Split(body, -1)[1:] {
			texts = append(texts, regexp.MustCompile(`<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(row, -1)[column][1])
		}
		m := next.FindStringSubmatch(body)
		if m == nil {
			return texts
		}
		if query = strings.TrimPrefix(html.UnescapeString(m[1]), "?"); n > 20 {
			r.Fatalf("%s has no end", path)
		}
	}
}

// TestGrid: the pages of a table have each of its rows once, in the order that is asked for, and those alone that a filter selects.
func TestGrid(t *testing.T) {
	r := newRig(t)
	const rows = 250
	at := r.tables("room", rows)
	up := func(from, to int) (ids []string) {
		for i := from; i <= to; i++ {
			ids = append(ids, strconv.Itoa(i))
		}
		return ids
	}
	down := func(ids []string) (back []string) {
		for i := range ids {
			back = append(back, ids[len(ids)-1-i])
		}
		return back
	}
	filter := func(column, test, value string) string {
		return "&" + url.Values{"column": {column}, "test": {test}, "value": {value}}.Encode()
	}
	for path, want := range map[string][]string{
		"plain":                                                  up(1, rows),
		"plain?desc=true":                                        down(up(1, rows)),
		"plain?sort=n":                                           down(up(1, rows)),
		"plain?sort=n&desc=true":                                 up(1, rows),
		"plain?" + filter("n", "=", "-7"):                        {"7"},
		"plain?" + filter("n", "<", "-248"):                      {"249", "250"},
		"plain?" + filter("n", "≤", "-249"):                      {"249", "250"},
		"plain?" + filter("a b", "=", "row 7"):                   {"7"},
		"plain?" + filter("a b", "contains", "24"):               append([]string{"24", "124", "224"}, up(240, 249)...),
		"plain?" + filter("n", "is null", ""):                    nil,
		"plain?" + filter("n", "is not null", "") + "&desc=true": down(up(1, rows)),
		"plain?sort=id" + filter("n", "≠", "-1"):                 up(2, rows),
		"plain?" + filter("id", ">", "9223372036854775807"):      nil,
	} {
		if got := r.pages(at+path, 0); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{"keyed": "k00001 k00250", "keyed?desc=true": "k00250 k00001", "odd": "r1 r250", "half?sort=id": "2 250"} {
		got := r.pages(at+path, 0)
		n := rows
		if strings.HasPrefix(path, "half") {
			n /= 2
		}
		if len(got) != n || got[0]+" "+got[len(got)-1] != want {
			t.Errorf("%s: %d rows, %q", path, len(got), got)
		}
	}
	for _, bad := range []string{"plain?sort=x", "plain?column=x&test=%3D", "plain?column=n&test=x", "keyed?after=-1", "keyed?after=1e9", "plain?after=1%3Bdrop"} {
		if resp, _ := r.send(http.MethodGet, at+bad, nil, bearer(readSecret)); resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, resp.Status)
		}
	}
}

// TestWide: a page whose rows have more bytes than an answer may leads to those that it leaves out, in each order.
func TestWide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			names := make([]string, 80)
			for i := range names {
				names[i] = fmt.Sprint("c", i)
			}
			long := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("printf('%%0%dd', x),", 1000), len(names)), ",")
			_, err := tx.Exec("create table wide (" + strings.Join(names, ",") + ")")
			_, xerr := tx.Exec("with recursive c(x) as (select 1 union all select x + 1 from c where x < 130) insert into wide select " + long + " from c")
			return errors.Join(err, xerr)
		})
	})
	for _, query := range []string{"", "?sort=c7"} {
		if got := r.pages(r.path("room")+"/tables/wide"+query, 0); len(got) != 130 {
			t.Errorf("%s: %d rows", query, len(got))
		}
	}
}

// TestWideLarge: of a row with many columns that the API doesn't answer whole the grid shows the beginnings.
func TestWideLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	names := make([]string, 80)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			_, err := tx.Exec("create table wide (" + strings.Join(names, ",") + ")")
			_, ierr := tx.Exec("with recursive c(x) as (select 1 union all select x + 1 from c where x < 130) insert into wide (c0, c79) select 'first' || x, 'last' || x from c")
			_, uerr := tx.Exec("update wide set c30 = zeroblob(5000000), c31 = 'small', c50 = printf('%.*c', 2000000, 'x') where rowid in (1, 2, 120)")
			return errors.Join(err, ierr, uerr)
		})
	})
	at := r.path("room") + "/tables/wide"
	for _, query := range []string{"", "?sort=c79", "?sort=c79&desc=true&column=c78&test=is+null", "?sort=c0&column=c79&test=contains&value=last"} {
		if got := r.pages(at+query, 0); len(got) != 130 {
			t.Errorf("%s: %d rows", query, len(got))
		}
	}
	body := r.get(at)
	for _, want := range []string{"first1<", "last1<", "small", "4.77 MiB", "1.91 MiB", "last100<"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page hasn't %q", want)
		}
	}
	if strings.Count(body, "<td") < 100*80 || strings.Contains(body, "last101<") {
		t.Errorf("the page has %d cells", strings.Count(body, "<td"))
	}
}

// TestWidest: a table of as many columns as are shown is sorted, and has fewer rows on a page.
func TestWidest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			names := make([]string, 900)
			for i := range names {
				names[i] = fmt.Sprint("c", i)
			}
			_, err := tx.Exec("create table wide (" + strings.Join(names, ",") + ")")
			_, xerr := tx.Exec("with recursive c(x) as (select 1 union all select x + 1 from c where x < 25) insert into wide (c0, c899) select x, -x from c")
			return errors.Join(err, xerr)
		})
	})
	at, writer := r.path("room")+"/tables/wide", r.login(writeSecret)
	for query, first := range map[string]string{"": "1", "?sort=c899": "25", "?desc=true&column=c0&test=%E2%89%A5&value=1": "25"} {
		got := r.pages(at+query, 0)
		if len(got) != 25 || got[0] != first {
			t.Errorf("%s: %d rows, from %s on", query, len(got), got[0])
		}
	}
	if _, body := r.send(http.MethodGet, at, nil, http.Header{"Cookie": {writer.Name + "=" + writer.Value}}); len(body) > 3<<20 {
		t.Errorf("a page has %d bytes", len(body))
	}
}

// TestWideView: a row of a view that the API doesn't answer whole has no value of another row, whichever order indices give to some of its columns.
func TestWideView(t *testing.T) {
	r := newRig(t)
	names := make([]string, 21)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) (err error) {
			for _, text := range []string{
				"create table t (" + strings.Join(names, ",") + ")", "create index i on t (c20)", "create view wide as select * from t",
				"insert into t (c0, c1, c20) values ('first', zeroblob(5000000), 'z'), ('second', 2, 'y')",
			} {
				_, xerr := tx.Exec(text)
				err = errors.Join(err, xerr)
			}
			return err
		})
	})
	body := r.get(r.path("room") + "/tables/wide")
	if !strings.Contains(body, "first<") || !strings.Contains(body, "4.77 MiB") || strings.Contains(body, "<bdi>y</bdi>") || !strings.Contains(body, "more columns") {
		t.Errorf("the page is %s", body)
	}
}

// TestLongNames: a name of a megabyte is as a preview on each page, and in no link.
func TestLongNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := func(n int) string { return strings.Repeat("<", n) }
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) (err error) {
			for _, text := range []string{
				`create table t (a, "` + long(1<<20) + `" text)`, "with recursive c(x) as (select 1 union all select x + 1 from c where x < 100) insert into t select x, x from c",
				`create table "` + long(900_000) + `" (a)`, `create table u ("` + long(100_000) + `")`, "insert into u select a from t",
			} {
				_, xerr := tx.Exec(text)
				err = errors.Join(err, xerr)
			}
			for range 30 {
				_, xerr := tx.Enqueue(queue.Send{Name: long(100_000)})
				err = errors.Join(err, xerr)
			}
			return err
		})
	})
	writer := r.login(writeSecret)
	for view, want := range map[string]string{"/tables": "KiB)", "/tables/t": "more columns", "/sql": "Ctrl+Enter", "/queue": "(97.7 KiB)"} {
		resp, body := r.send(http.MethodGet, r.path("room")+view, nil, http.Header{"Cookie": {writer.Name + "=" + writer.Value}})
		if resp.StatusCode != http.StatusOK || len(body) > 200<<10 || !strings.Contains(body, want) {
			t.Errorf("%s: %s, %d bytes, %.2000s", view, resp.Status, len(body), body)
		}
	}
	resp, body := r.send(http.MethodPost, r.path("room")+"/sql", url.Values{"sql": {"select * from u"}, "form": {"json"}}, bearer(readSecret))
	if resp.StatusCode != http.StatusOK || len(body) > 16<<20 || !strings.Contains(body, "There are more rows") {
		t.Errorf("the rows in JSON: %s, %d bytes", resp.Status, len(body))
	}
}

// TestEditable: no form is offered for a value that it would change by itself.
func TestEditable(t *testing.T) {
	r := newRig(t)
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			_, err := tx.Exec("create table t (c); insert into t values ('plain'), (cast(x'61ff' as text)), (cast(x'610062' as text)), ('a' || char(13)), (x'00ff')")
			return err
		})
	})
	at, writer := r.path("room")+"/tables/t/cell?column=c&rowid=", r.login(writeSecret)
	for i, want := range []bool{true, false, false, false, true} {
		_, body := r.send(http.MethodGet, at+strconv.Itoa(i+1), nil, http.Header{"Cookie": {writer.Name + "=" + writer.Value}})
		if got := strings.Contains(body, `action="`+r.path("room")+`/do/cell?table=t&amp;column=c"`); got != want {
			t.Errorf("row %d has a form: %v", i+1, got)
		}
	}
}

// TestTooLong: rows that aren't found in two seconds are given up, and the page says so.
func TestTooLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := r.tables("room", 1)
	if body := r.get(at + "endless"); !strings.Contains(body, "takes longer than two seconds") {
		t.Errorf("the page is %s", body)
	}
}

// TestConsole: a statement that reads is run, explained and written in several forms; one that writes is refused, and changes nothing.
func TestConsole(t *testing.T) {
	r := newRig(t)
	at := strings.TrimSuffix(r.tables("room", 3), "/tables/") + "/sql"
	run := func(secret, sql, form, do string) (int, string) {
		headers := bearer(secret)
		resp, body := r.send(http.MethodPost, at, url.Values{"sql": {sql}, "form": {form}, "do": {do}}, headers)
		return resp.StatusCode, body
	}
	for _, c := range []struct{ sql, form, do, want string }{
		{"select id, n from plain order by 1", "table", "run", "<tr><td><bdi>3</bdi></td><td><bdi>-3</bdi></td></tr>"},
		{"select id, n as \"x,y\" from plain where id < 2", "csv", "run", "<bdi>id,&#34;x,y&#34;\n1,-1\n</bdi>"},
		{"select id, null as z from plain where id < 2", "json", "run", "<bdi>[\n  {&#34;id&#34;:1,&#34;z&#34;:null}\n]\n</bdi>"},
		{"select * from plain where id = 1 union select * from plain", "table", "explain", `<li class="in1">`},
		{"select 1 where 0", "table", "run", "returned no rows"},
		{"selct", "table", "run", `role="alert"`},
		{"delete from plain", "table", "run", `role="alert"`},
		{"select 1; delete from plain", "table", "run", `role="alert"`},
		{"pragma user_version = 7", "table", "run", `role="alert"`},
		{"attach 'x' as y", "table", "run", `role="alert"`},
		{"with recursive c(x) as (select 1 union all select x+1 from c) select x from c", "table", "run", "There are more rows"},
	} {
		for _, secret := range []string{readSecret, writeSecret} {
			if status, body := run(secret, c.sql, c.form, c.do); status != http.StatusOK || !strings.Contains(body, c.want) {
				t.Errorf("%s of %s: %d %s", c.do, c.sql, status, body)
			}
		}
	}
	if status, body := run(readSecret, "select 1"+strings.Repeat(" ", 3<<20), "table", "run"); status != http.StatusBadRequest || !strings.Contains(body, "form can&#39;t be read") {
		t.Errorf("a statement that is too long: %d %s", status, body)
	}
	if _, body := run(readSecret, "select count(*) from plain", "table", "run"); !strings.Contains(body, "<td><bdi>3</bdi></td>") {
		t.Errorf("the rows are %s", body)
	}
}
