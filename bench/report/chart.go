package main

import (
	"bytes"
	"errors"
	"html/template"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width     = 27 * vg.Centimeter
	rowHeight = 0.62 * vg.Centimeter
	margins   = 2.2 * vg.Centimeter // above and below the rows
)

// Colours that people who see no red or green tell apart as well.
var (
	ink    = color.RGBA{0x33, 0x3b, 0x45, 0xff}
	pale   = color.RGBA{0xdd, 0xe1, 0xe6, 0xff}
	blue   = color.RGBA{0x1b, 0x6c, 0xa8, 0xff}
	orange = color.RGBA{0xd9, 0x6b, 0x0b, 0xff}
	grey   = color.RGBA{0x8a, 0x93, 0x9e, 0xff}
	yellow = color.RGBA{0xc9, 0xa2, 0x0a, 0xff}
)

// colour is what a verdict looks like; the page's legend says the same.
func (v verdict) colour() color.RGBA {
	switch v {
	case reached:
		return blue
	case near:
		return yellow
	case missed:
		return orange
	}
	return grey
}

// A point is a value in a row of a chart, with the interval that it lies in.
type point struct {
	row          int // counted from the top
	x, low, high float64
}

// A chart has a row for each name, from the top, and points in them.
type chart struct {
	plot *plot.Plot
	rows []string
}

// newChart makes a chart whose x axis is logarithmic and holds at least [low, high].
func newChart(rows []string, title string, low, high float64) *chart {
	p := plot.New()
	text := font.Font{Typeface: "Liberation", Variant: "Sans"}
	p.X.Label.Text = title
	for _, style := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font, style.Color = text, ink
		style.Font.Size = 10
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	p.X.Color, p.X.Tick.Color = ink, ink
	p.X.Label.Padding = 6
	upside := slices.Clone(rows)
	slices.Reverse(upside)
	p.NominalY(upside...)
	// Room for names in a wider font, where a browser has none of those of the page: they
	// begin where Liberation's would.
	p.Y.Padding, p.Y.LineStyle.Width = 22, 0
	// The axis ends at values that have a name.
	p.X.Min, p.X.Max = round(low, math.Floor), round(high, math.Ceil)
	if p.X.Min == p.X.Max { // an axis has a length
		p.X.Min, p.X.Max = p.X.Min/2, 2*p.X.Max
	}
	p.Y.Min, p.Y.Max = -0.7, float64(len(rows))-0.3
	return &chart{p, rows}
}

// y is where a row is.
func (c *chart) y(row int) float64 { return float64(len(c.rows) - 1 - row) }

// grid draws a pale line along every row, and across for every named value.
func (c *chart) grid() {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = pale, pale
	c.plot.Add(g)
}

// across draws a line at x through all rows.
func (c *chart) across(x float64) error {
	l, err := plotter.NewLine(plotter.XYs{{X: x, Y: c.plot.Y.Min}, {X: x, Y: c.plot.Y.Max}})
	if err != nil {
		return err
	}
	l.Color, l.Width = ink, 1
	c.plot.Add(l)
	return nil
}

// points draws points of one kind.
func (c *chart) points(ps []point, shape draw.GlyphDrawer, paint color.Color) error {
	if len(ps) == 0 {
		return nil
	}
	var at plotter.XYs
	for _, p := range ps {
		at = append(at, plotter.XY{X: p.x, Y: c.y(p.row)})
	}
	s, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	s.GlyphStyle = draw.GlyphStyle{Color: paint, Radius: 4, Shape: shape}
	c.plot.Add(s)
	return nil
}

// intervals draws the intervals of points.
func (c *chart) intervals(ps []point, paint color.Color) error {
	if len(ps) == 0 {
		return nil
	}
	var bars struct {
		plotter.XYs
		plotter.XErrors
	}
	for _, p := range ps {
		bars.XYs = append(bars.XYs, plotter.XY{X: p.x, Y: c.y(p.row)})
		bars.XErrors = append(bars.XErrors, struct{ Low, High float64 }{p.low - p.x, p.high - p.x})
	}
	e, err := plotter.NewXErrorBars(bars)
	if err != nil {
		return err
	}
	e.Color, e.Width, e.CapWidth = paint, 1.5, 5
	c.plot.Add(e)
	return nil
}

// A mark is a glyph: an upright line that is higher than the others, so that what lies on it
// doesn't hide it.
type mark struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (mark) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	const half = 7
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: 2})
	var p vg.Path
	p.Move(vg.Point{X: at.X, Y: at.Y - half})
	p.Line(vg.Point{X: at.X, Y: at.Y + half})
	c.Stroke(p)
}

// A halo is a glyph: a ring so wide that a point of another kind fits in, and is seen where
// both have the same value.
type halo struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (halo) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	const radius = 6.5
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: 2})
	var p vg.Path
	p.Move(vg.Point{X: at.X + radius, Y: at.Y})
	p.Arc(at, radius, 0, 2*math.Pi)
	p.Close()
	c.Stroke(p)
}

// svg draws the chart as an element of a page. What stands in it is escaped by the library.
func (c *chart) svg() (template.HTML, error) {
	canvas := vgsvg.New(width, margins+rowHeight*vg.Length(len(c.rows)))
	c.plot.BackgroundColor = color.Transparent
	// The last value of the axis stands half behind its end.
	c.plot.Draw(draw.Crop(draw.New(canvas), 0, -0.6*vg.Centimeter, 0, 0))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	// A document's head has no place inside of another.
	start := bytes.Index(b.Bytes(), []byte("<svg"))
	if start < 0 {
		return "", errors.New("the chart is no SVG")
	}
	return template.HTML(b.Bytes()[start:]), nil
}

// linear has the axis begin at 0 and go on in equal steps.
func (c *chart) linear() {
	c.plot.X.Scale, c.plot.X.Tick.Marker = plot.LinearScale{}, whole{}
	c.plot.X.Min = 0
}

// whole are the ticks of a linear axis, whose labels have no digits that say nothing.
type whole struct{}

func (whole) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64)
		}
	}
	return ticks
}

// steps are the values with a name in every power of ten.
var steps = []float64{1, 2, 5, 10}

// round moves x to a value with a name, below or above it as by says.
func round(x float64, by func(float64) float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	up := by(0.5) == 1
	found := power
	for _, s := range steps {
		switch v := s * power; {
		case v <= x*(1+1e-9) && !up:
			found = v
		case v >= x*(1-1e-9) && up:
			return v
		}
	}
	return found
}

// digits is how many digits behind the point a value with a name has.
func digits(v float64) int { return max(0, -int(math.Floor(math.Log10(v*(1+1e-9))))) }

// powers are the ticks of an axis: 1, 2 and 5 in every power of ten, or powers alone where
// there are many.
type powers struct{}

func (powers) Ticks(low, high float64) []plot.Tick {
	few := math.Log10(high/low) > 3
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, s := range steps[:3] {
			v := s * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if !few || s == 1 {
				t.Label = strconv.FormatFloat(v, 'f', digits(v), 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
