package visible_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/internal/visible"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain, äöü 日本 “x” \" ' \\": "plain, äöü 日本 “x” \" ' \\", "a\tb\nc": "a\\tb\nc", "\x1b[2J\x00\x7f": `\x1b[2J\x00\x7f`, "\u202eabc\u2066": `\u202eabc\u2066`,
		"\xff\ufffd\xc3": `\xff` + "\ufffd" + `\xc3`, "\u0085\U000e0001": `\u0085\U000e0001`,
	} {
		if got := visible.Text(text, "\n"); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := visible.Text("\t\r\n", "\t\n"); got != "\t\\r\n" {
		t.Errorf("what is kept: %q", got)
	}
}
