package serving

import (
	"testing"
	"time"
)

// TestDuration: lengths of time may be in days, and are written as they are read.
func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "30d": 30 * Day, "1d12h": 36 * time.Hour, "0s": 0, "1.5h": 90 * time.Minute, "0d": 0, "65535d": 65535 * Day,
	} {
		var d Duration
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %v, %v", text, time.Duration(d), err)
		}
		again := d
		if err := again.Set(d.String()); err != nil || again != d {
			t.Errorf("%s is written %s, which is %v, %v", text, d.String(), time.Duration(again), err)
		}
	}
	for _, text := range []string{"", "d", "30", "-1h", "-1d", "1d-1h", "1.5d", "1d ", "65536d", "1w"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
