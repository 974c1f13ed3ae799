package filter_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/filter"
)

// TestImplexus evaluates each row of the last table of docs/expressions.md: the old form gives what the second column
// says, and CEL's form the result. The data stands on the page, too, as an expression.
func TestImplexus(t *testing.T) {
	page, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Coming from Implexus' expressions\n")
	data := regexp.MustCompile(`(?m)^    (\{.+)$`).FindStringSubmatch(text)
	rows := regexp.MustCompile("(?m)^\\| `(.+?)` \\| (the same|mismatch|1:\\d+).* \\| `(.+?)` \\| (?:`(.+?)`|(mismatch).*) \\|$").FindAllStringSubmatch(text, -1)
	if data == nil || len(rows) != strings.Count(text, "\n| `") || len(rows) < 25 {
		t.Fatalf("the data is %q; %d rows of %d can be read", data, len(rows), strings.Count(text, "\n| `"))
	}
	document, err := compile(t, data[1], nil).Eval(t.Context(), filter.Map{})
	if err != nil {
		t.Fatal(err)
	}
	vars := filter.Map(document.(map[string]any))
	for _, row := range rows {
		old, cel := strings.ReplaceAll(row[1], `\|`, "|"), strings.ReplaceAll(row[3], `\|`, "|")
		got, err := compile(t, cel, nil).Eval(t.Context(), vars)
		if row[5] != "" {
			if !errors.Is(err, filter.ErrMismatch) {
				t.Errorf("%s: got %v and %v, want a mismatch", cel, got, err)
			}
		} else if want, _ := compile(t, row[4], nil).Eval(t.Context(), vars); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v and %v, want %#v", cel, got, err, want)
		}
		if asItIs := evaluateOld(t, old, vars, got); asItIs != row[2] {
			t.Errorf("%s: got %s, want %s", old, asItIs, row[2])
		}
	}
}

// evaluateOld returns what the second column says of a form: the place of its error, "mismatch", or "the same".
func evaluateOld(t *testing.T, source string, vars filter.Vars, want any) string {
	t.Helper()
	p, err := filter.Compile(source, nil)
	var bad *filter.SyntaxError
	if errors.As(err, &bad) {
		return fmt.Sprintf("%d:%d", bad.Line, bad.Column)
	}
	got, err := p.Eval(t.Context(), vars)
	switch {
	case errors.Is(err, filter.ErrMismatch):
		return "mismatch"
	case err == nil && reflect.DeepEqual(got, want):
		return "the same"
	}
	return fmt.Sprintf("%v and %v", got, err)
}
