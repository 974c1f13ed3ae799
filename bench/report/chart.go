package main

import (
	"bytes"
	"errors"
	"html/template"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

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

// colours are what verdicts look like; the page's legend says the same.
var colours = map[verdict]color.RGBA{reached: blue, near: yellow, missed: orange, open: grey}

// A point is a value in a row of a chart, with the interval that it lies in. A value without
// an interval has zeros there.
type point struct {
	row          int // counted from the top
	x, low, high float64
}

// A layer is points of one kind.
type layer struct {
	shape  draw.GlyphDrawer
	paint  color.Color
	points []point
}

// add adds a point, and its interval.
func (l *layer) add(row int, x, low, high float64) {
	l.points = append(l.points, point{row, x, low, high})
}

// Plot implements plot.Plotter: it draws intervals, with a short line across each end, and a
// glyph on each of them. The first row is at 0, and the others are below.
func (l *layer) Plot(c draw.Canvas, p *plot.Plot) {
	const half = 2.5
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: l.paint, Width: 1.5}
	for _, of := range l.points {
		at := vg.Point{X: x(of.x), Y: y(float64(-of.row))}
		if of.high > 0 {
			c.StrokeLine2(line, x(of.low), at.Y, x(of.high), at.Y)
			for _, end := range []vg.Length{x(of.low), x(of.high)} {
				c.StrokeLine2(line, end, at.Y-half, end, at.Y+half)
			}
		}
		c.DrawGlyph(draw.GlyphStyle{Color: l.paint, Radius: 4, Shape: l.shape}, at)
	}
}

// A chart has a row for each name, from the top, and layers of points, the last on top. Its
// axis is logarithmic and has a 1, unless it is linear and begins at 0.
type chart struct {
	title  string
	rows   []string
	across bool // a line at 1 through all rows
	linear bool
	layers []*layer
}

// svg draws the chart as an element of a page. What stands in it is escaped by the library. A
// chart without rows is empty.
func (c chart) svg() (template.HTML, error) {
	if len(c.rows) == 0 {
		return "", nil
	}
	p := plot.New()
	text := font.Font{Typeface: "Liberation", Variant: "Sans"}
	p.X.Label.Text, p.X.Label.Padding = c.title, 6
	for _, style := range []*draw.TextStyle{&p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font, style.Color = text, ink
		style.Font.Size = 10
	}
	p.X.Color, p.X.Tick.Color = ink, ink
	c.scale(p)
	var names plot.ConstantTicks
	for i, row := range c.rows {
		names = append(names, plot.Tick{Value: float64(-i), Label: row})
	}
	// Room for names in a wider font, where a browser has none of those of the page: they
	// begin where Liberation's would.
	p.Y.Padding, p.Y.LineStyle.Width, p.Y.Tick.Length, p.Y.Tick.Marker = 22, 0, 0, names
	p.Y.Min, p.Y.Max = 0.3-float64(len(c.rows)), 0.7
	grid := plotter.NewGrid() // a pale line along every row, and across for every named value
	grid.Vertical.Color, grid.Horizontal.Color = pale, pale
	p.Add(grid)
	if c.across {
		p.Add(across{})
	}
	for _, l := range c.layers {
		p.Add(l)
	}
	p.BackgroundColor = color.Transparent
	canvas := vgsvg.New(width, margins+rowHeight*vg.Length(len(c.rows)))
	// The last value of the axis stands half behind its end.
	p.Draw(draw.Crop(draw.New(canvas), 0, -0.6*vg.Centimeter, 0, 0))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	// A document's head has no place inside of another.
	_, element, found := strings.Cut(b.String(), "<svg")
	if !found {
		return "", errors.New("the chart is not an SVG")
	}
	return template.HTML("<svg" + element), nil
}

// scale has the axis hold all points and their intervals.
func (c chart) scale(p *plot.Plot) {
	low, high := 1.0, 1.0
	for _, l := range c.layers {
		for _, of := range l.points {
			low, high = min(low, of.x), max(high, of.x, of.high)
			if of.high > 0 {
				low = min(low, of.low)
			}
		}
	}
	// The axis ends at values that have a name.
	if c.linear {
		p.X.Min, p.X.Max, p.X.Tick.Marker = 0, round(high, true), whole{}
		return
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	p.X.Min, p.X.Max = round(low, false), round(high, true)
	if p.X.Min == p.X.Max { // an axis has a length
		p.X.Min, p.X.Max = p.X.Min/2, 2*p.X.Max
	}
}

// across is a line at 1 through all rows.
type across struct{}

// Plot implements plot.Plotter.
func (across) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1}, x(1), c.Min.Y, x(1), c.Max.Y)
}

// A mark is a glyph: an upright line that is higher than the others, so that what lies on it
// doesn't hide it.
type mark struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (mark) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	const half = 7
	c.StrokeLine2(draw.LineStyle{Color: s.Color, Width: 2}, at.X, at.Y-half, at.X, at.Y+half)
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

// round moves x to a value with a name, above it if up says so, or else below.
func round(x float64, up bool) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	i := slices.IndexFunc(steps, func(s float64) bool { return s*power >= x*(1-1e-9) })
	if !up && steps[i]*power > x*(1+1e-9) {
		i--
	}
	return steps[i] * power
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
