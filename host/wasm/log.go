package wasm

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// maxLine is where a line of standard output is cut.
const maxLine = 4 << 10

// A logBudget is what an instance may still log: Options.LogBytes at once, and a sixteenth
// of it per second.
type logBudget struct {
	left    int
	filled  time.Time // when left was right; zero before the first line
	dropped int       // lines since the last call

	stdout, stderr lines
}

// take says whether a line of n bytes may be written.
func (b *logBudget) take(now time.Time, n, limit int) bool {
	if b.filled.IsZero() {
		b.left = limit
	} else if d := min(now.Sub(b.filled), time.Hour); d > 0 {
		b.left = min(limit, b.left+int(int64(limit)*d.Milliseconds()/16_000))
	}
	b.filled = now
	if b.left < n {
		b.dropped++
		return false
	}
	b.left -= n
	return true
}

// flush writes the output of a call, and how much of it was dropped.
func (b *logBudget) flush(c *call) {
	c.writeLines("stdout", &b.stdout)
	c.writeLines("stderr", &b.stderr)
	if b.dropped > 0 {
		c.logger().Warn("wasm: lines of the module's log were dropped", slog.Int("lines", b.dropped))
		b.dropped = 0
	}
}

// logger is the actor's.
func (c *call) logger() *slog.Logger {
	if c.host == nil {
		return c.module.opts.Logger
	}
	return c.host.Log()
}

// record writes a line for the module, if it may have one.
func (c *call) record(level slog.Level, text string, attrs ...slog.Attr) {
	c.logger().LogAttrs(context.WithoutCancel(c.ctx), level, clip(text, maxLine), attrs...)
}

// logs is the host function.
func (c *call) logs(r *abi.Record, size int) {
	if !c.log.take(c.now, size+64, c.module.opts.LogBytes) {
		return
	}
	var attrs []slog.Attr
	if len(r.Attrs) > 0 {
		attrs = append(attrs, slog.Any("attrs", r.Attrs)) // below a name, as they may have any names
	}
	c.record(slog.Level(r.Level), r.Message, attrs...)
}

// writeLines logs what a call has written to an output.
func (c *call) writeLines(name string, out *lines) {
	text := out.text
	c.log.dropped += out.lost
	out.text, out.lost = out.text[:0], 0
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if len(line) == 0 {
			continue
		}
		if c.log.take(c.now, len(line)+64, c.module.opts.LogBytes) {
			c.record(slog.LevelInfo, string(line), slog.String("output", name))
		}
	}
	if cap(out.text) > maxLine {
		out.text = nil
	}
}

// lines is an output of a module: what it writes in a call, up to a bound.
type lines struct {
	text []byte
	lost int
}

// maxOutput bounds what is kept of an output in a call.
const maxOutput = 64 << 10

// Write keeps p, or as much as there is room for: a module can't do anything about it.
func (l *lines) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-len(l.text))
	l.text = append(l.text, p[:n]...)
	if n < len(p) {
		l.lost++
	}
	return len(p), nil
}
