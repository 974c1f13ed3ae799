package serving_test

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestPageFlags: origins and names that browsers send are taken, and others refused.
func TestPageFlags(t *testing.T) {
	for _, tt := range []struct {
		flag      string
		good, bad []string
	}{
		{"--origin", []string{"https://example.com", "http://localhost:5173", "http://[::1]:80"},
			[]string{"", "nonsense", "https://", "example.com", "https://example.com/", "https://a b", "https://user@example.com", "https://example.com/path", "null"}},
		{"--name", []string{"example.com", "localhost", "my-host_1", "bücher.example", "127.0.0.1", "::1", "[::1]"},
			[]string{"", "a b", "example.com:6420", "https://example.com", "example.com/", ".", "1:", "[x]"}},
	} {
		for i, values := range [][]string{tt.good, tt.bad} {
			for _, value := range values {
				var origins, hosts []string
				flags := pflag.NewFlagSet("", pflag.ContinueOnError)
				serving.PageFlags(flags, &origins, &hosts)
				err := flags.Parse([]string{tt.flag, value})
				if (err == nil) != (i == 0) || (err == nil) != slices.Equal(append(origins, hosts...), []string{value}) {
					t.Errorf("%s %q: %v, %q, %q", tt.flag, value, err, origins, hosts)
				}
			}
		}
	}
}
