package archive

import (
	"fmt"
	"strconv"
	"strings"
)

// The names of objects. Numbers have 20 digits, epochs and lineages 10, so that the order of names is theirs.
const (
	manifestName = "archive"
	epochPrefix  = "epoch/"
	linePrefix   = "line/"
	tablePrefix  = "table/"
)

func epochName(epoch uint64) string { return fmt.Sprintf("%s%010d", epochPrefix, epoch) }

// linesOf is what the names of a lineage begin with.
func linesOf(line uint64) string { return fmt.Sprintf("%s%010d/", linePrefix, line) }

// lineOf returns the lineage of an object.
func lineOf(name string) (line uint64, ok bool) {
	number, _, ok := strings.Cut(strings.TrimPrefix(name, linePrefix), "/")
	line, err := strconv.ParseUint(number, 10, 64)
	return line, ok && err == nil
}

func basesOf(line uint64) string { return linesOf(line) + "base/" }

func baseName(line, number uint64) string { return fmt.Sprintf("%s%020d", basesOf(line), number) }

func logOf(line uint64) string { return linesOf(line) + "log/" }

// firstName is the name of a segment that a Writer stores, of which another one can't have the same.
func firstName(line, first uint64) string { return fmt.Sprintf("%s%020d", logOf(line), first) }

// mergedName is that of one that was put together.
func mergedName(line, first, last uint64) string {
	return fmt.Sprintf("%s-%020d", firstName(line, first), last)
}

// parseLog returns the numbers in the name of a segment; last is 0 if the name doesn't say it.
func parseLog(line uint64, name string) (first, last uint64, ok bool) {
	from, to, merged := strings.Cut(strings.TrimPrefix(name, logOf(line)), "-")
	first, err := strconv.ParseUint(from, 10, 64)
	if err == nil && merged {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	return first, last, err == nil && first > 0 && (!merged || last >= first)
}

// parseNumber returns the number behind a prefix.
func parseNumber(prefix, name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, prefix), 10, 64)
	return n, err == nil
}
