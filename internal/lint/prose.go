package lint

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// stale matches words and turns that make sentences hard to read here, whatever their use in one place: pronouns in
// the place of a noun, "no" in the place of "not a", and the causative "has".
var stale = regexp.MustCompile(`(?i)\b(?:who|nobody|whoever|somebody|is no|is none|there is none)\b` +
	`|\b(?:has|have)(?: [\w'.]+){1,4}? (?:\w+ed|made|kept|written|run)\b`)

// measureProse counts what stale matches in the comments of each package and on each page. Each has a line among the
// exceptions, and its number only falls.
func measureProse(t *tree) (ms []measured, _ []finding) {
	counts := map[string]int{}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, group := range f.AST.Comments {
				counts[p.Dir] += countStale(group.Text())
			}
		}
	}
	for _, x := range t.Texts {
		if path.Ext(x.Path) == ".md" && x.Path != "CHANGELOG.md" {
			counts[x.Path] += countStale(x.Data)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := counts[name]
		ms = append(ms, measured{
			name: name, place: finding{name, 0, ""}, counts: []int{n}, over: n > 0,
			says: fmt.Sprintf("the prose has %d of the words and turns that internal/lint/prose.go lists", n),
		})
	}
	return ms, nil
}

func countStale(text string) int {
	return len(stale.FindAllString(passive.Replace(strings.Join(strings.Fields(text), " ")), -1))
}

// passive takes out the plain perfect, which stale would match.
var passive = strings.NewReplacer("has been ", "was ", "have been ", "were ")
