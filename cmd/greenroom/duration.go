package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A duration is a flag whose value is a length of time, which may be in days, such as 90m, 30d or 1d12h.
type duration time.Duration

const day = 24 * time.Hour

// parseDuration parses what a duration may be. It is not negative.
func parseDuration(text string) (time.Duration, error) {
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
	return time.Duration(days)*day + more, nil
}

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

// String implements pflag.Value.
func (d *duration) String() string {
	if t := time.Duration(*d); t%day != 0 || t == 0 {
		return t.String()
	}
	return fmt.Sprint(int64(*d)/int64(day), "d")
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }
