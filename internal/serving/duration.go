package serving

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Duration is a flag whose value is a length of time, which may be in days, such as 90m, 30d or 1d12h.
type Duration time.Duration

// Day is 24 hours.
const Day = 24 * time.Hour

// ParseDuration parses what a duration may be. It is not negative.
func ParseDuration(text string) (time.Duration, error) {
	number, rest, inDays := strings.Cut(text, "d")
	if !inDays {
		number, rest = "0", text
	}
	days, err := strconv.ParseUint(number, 10, 16)
	more := time.Duration(0)
	if err == nil && rest != "" {
		more, err = time.ParseDuration(rest)
	}
	if err != nil || more < 0 || rest == "" && !inDays {
		return 0, fmt.Errorf("%s is not a length of time such as 90m, 30d or 1d12h", text)
	}
	return time.Duration(days)*Day + more, nil
}

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}

// String implements pflag.Value.
func (d *Duration) String() string {
	if t := time.Duration(*d); t%Day != 0 || t == 0 {
		return t.String()
	}
	return fmt.Sprint(int64(*d)/int64(Day), "d")
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }
