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
	Facts                           [][2]string
	Lines                           []line
	Ratios, Changes, Calls, Memory  template.HTML
	Reached, Near, Missed, Promised int
}

func writePage(w io.Writer, r run) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"significant": significant, "known": known, "mib": mib,
		"verdict": func(l line) string { return string(l.verdict()) },
	}).Parse(pageSource)
	if err != nil {
		return err
	}
	p := page{Facts: r.Facts, Lines: r.Lines}
	for _, l := range r.Lines {
		switch l.verdict() {
		case reached:
			p.Reached++
		case near:
			p.Near++
		case missed:
			p.Missed++
		case open:
			continue
		}
		p.Promised++
	}
	for _, c := range []struct {
		to   *template.HTML
		draw func() (template.HTML, error)
	}{
		{&p.Ratios, func() (template.HTML, error) { return ratioChart(r.Lines) }},
		{&p.Changes, func() (template.HTML, error) { return changeChart(r.Before, r.Lines) }},
		{&p.Calls, func() (template.HTML, error) { return callChart(r.Lines) }},
		{&p.Memory, func() (template.HTML, error) { return memoryChart(r.Lines) }},
	} {
		if *c.to, err = c.draw(); err != nil {
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
