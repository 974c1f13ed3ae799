package main

import (
	_ "embed"
	"html/template"
	"io"
	"strconv"
)

//go:embed page.html
var pageSource string

// A page is what the template is filled with. Charts that are empty aren't shown.
type page struct {
	run
	Ratios, Changes, Calls, Memory  template.HTML
	Reached, Near, Missed, Promised int
}

func writePage(w io.Writer, r run) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"significant": significant, "known": known, "mib": mib, "verdict": line.verdict,
	}).Parse(pageSource)
	if err != nil {
		return err
	}
	count := map[verdict]int{}
	for _, l := range r.Lines {
		count[l.verdict()]++
	}
	p := page{run: r, Reached: count[reached], Near: count[near], Missed: count[missed], Promised: len(r.Lines) - count[open]}
	for to, c := range map[*template.HTML]chart{
		&p.Ratios: ratioChart(r.Lines), &p.Changes: changeChart(r.Before, r.Lines),
		&p.Calls: callChart(r.Lines), &p.Memory: memoryChart(r.Lines),
	} {
		if *to, err = c.svg(); err != nil {
			return err
		}
	}
	return t.Execute(w, p)
}

// significant prints x with three significant digits, and integers that have more in full;
// nothing for 0, which stands for what isn't known or doesn't happen.
func significant(x float64) string {
	switch {
	case x == 0:
		return ""
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// known prints x, also 0; nothing for what isn't known.
func known(x *float64) string {
	switch {
	case x == nil:
		return ""
	case *x == 0:
		return "0"
	}
	return significant(*x)
}

func mib(bytes int64) string { return significant(float64(bytes >> 20)) }
