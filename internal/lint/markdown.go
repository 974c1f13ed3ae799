package lint

import (
	"fmt"
	"iter"
	"path"
	"regexp"
	"strings"
)

// link is a Markdown link's target without its fragment.
var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)\s]*\)`)

// markdown yields every line of every Markdown page, as a finding without a text.
func (t *tree) markdown() iter.Seq2[finding, string] {
	return func(yield func(finding, string) bool) {
		for _, x := range t.Texts {
			if path.Ext(x.Path) != ".md" {
				continue
			}
			line := 0
			for text := range strings.Lines(x.Data) {
				if line++; !yield(finding{Path: x.Path, Line: line}, text) {
					return
				}
			}
		}
	}
}

// checkLinks wants a file behind every relative link of a Markdown page.
func checkLinks(t *tree) []finding {
	var fs []finding
	code := false // in a fenced block
	for f, text := range t.markdown() {
		if fence := strings.HasPrefix(text, "```"); fence || f.Line == 1 {
			code = fence && (!code || f.Line == 1)
		}
		if code {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "://") && !t.Paths[path.Join(path.Dir(f.Path), m[1])] {
				f.Text = "links to " + m[1] + ", which isn't there"
				fs = append(fs, f)
			}
		}
	}
	return fs
}

// between returns the text between the lines "<!-- name -->" and
// "<!-- /name -->" of a Markdown page, and an error when one of them is missing
// or stands there twice.
func between(page, name string) (string, error) {
	_, body, _, err := cut(page, name)
	return body, err
}

// replace returns page with the text between the two lines replaced by body.
func replace(page, name, body string) (string, error) {
	before, _, after, err := cut(page, name)
	return before + body + after, err
}

// cut leaves the markers in before and after.
func cut(page, name string) (before, body, after string, err error) {
	open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	if strings.Count(page, open) != 1 || strings.Count(page, end) != 1 {
		return page, "", "", fmt.Errorf("lint: the page must have the lines %q and %q once each",
			strings.TrimSpace(open), strings.TrimSpace(end))
	}
	before, rest, _ := strings.Cut(page, open)
	body, after, ok := strings.Cut(rest, end)
	if !ok {
		return page, "", "", fmt.Errorf("lint: %q stands before %q", strings.TrimSpace(end), strings.TrimSpace(open))
	}
	return before + open, body, end + after, nil
}

// command returns the one command in the fenced block between the markers of
// name: what .ci/run runs because the page says so.
func command(page, name string) (string, error) {
	body, err := between(page, name)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "```") || lines[len(lines)-1] != "```" {
		return "", fmt.Errorf("lint: no fenced block between the markers of %q", name)
	}
	return strings.Join(lines[1:len(lines)-1], "\n"), nil
}
