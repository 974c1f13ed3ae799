package serving

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A ByteSize is a flag whose value is a number of bytes, such as 512MiB.
type ByteSize int64

// byteUnits are the units of a byteSize, the largest first.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// Set implements pflag.Value.
func (s *ByteSize) Set(text string) error {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n <= 0 || n > (1<<50)/u.bytes {
			break
		}
		*s = ByteSize(n * u.bytes)
		return nil
	}
	return errors.New("not a size such as 512MiB or 4GiB")
}

// String implements pflag.Value.
func (s *ByteSize) String() string {
	for _, u := range byteUnits {
		if n := int64(*s); n%u.bytes == 0 {
			return fmt.Sprint(n/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type implements pflag.Value.
func (s *ByteSize) Type() string { return "size" }

// SizeText writes a number of bytes for people: to a tenth of the largest unit that it has one of.
func SizeText(n int64) string {
	for _, u := range byteUnits {
		if n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprint(n, " bytes")
}
